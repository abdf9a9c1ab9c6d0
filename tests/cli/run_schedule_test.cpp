// `run --schedule`: which order a run takes, and how a failure says which it was.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace dcp {
namespace {

using testing::HasSubstr;

// The third step fails: its combine is left out.
constexpr const char* kFails = R"(schema: 1
world_size: 2
model: tiny
layers: 1
strategy: direct
graph: {capture_sizes: [2]}
batches:
  two: {seq_lens: [5, 1]}
steps:
  - capture: all
  - replay: two
  - skip: {op: combine}
    rank: 1
  - replay: two
)";

class RunSchedule : public test::ProgramTest {
 protected:
  nlohmann::json run_json(const std::string& options) const {
    outcome_ = run("run " + path("x.yaml") + " --json " + path("x.json") + " " + options);
    return nlohmann::json::parse(text_of("x.json"));
  }
  mutable test::Outcome outcome_;
};

TEST_F(RunSchedule, AFailureNamesTheScheduleAndTheTextRunsItAgain) {
  write("x.yaml", kFails);
  for (const std::string name : {"earliest", "latest", "uniform", "pct", "pos"}) {
    SCOPED_TRACE(name);
    const auto drawn = run_json("--schedule " + name + " --seed 7");
    EXPECT_EQ(outcome_.exit_code, 1);
    EXPECT_THAT(outcome_.out, HasSubstr("--seed 7 --schedule " + name));
    const std::string text = drawn["scenarios"][0]["schedule"];
    EXPECT_THAT(outcome_.out, HasSubstr("\n  as it was: --schedule " + text + "\n"));
    const auto again = run_json("--schedule " + text);
    EXPECT_EQ(again["scenarios"][0]["schedule"], text);
    EXPECT_EQ(outcome_.exit_code, 1);
  }
}

TEST_F(RunSchedule, TheUniformDrawIsTheOneThatIsTakenWithoutAName) {
  write("x.yaml", kFails);
  EXPECT_TRUE(run_json("--seed 3")["scenarios"][0]["schedule"].is_null());
  run("run " + path("x.yaml") + " --seed 3 --strategy direct --trace " + path("plain.json"));
  run("run " + path("x.yaml") + " --seed 3 --strategy direct --schedule uniform --trace " +
      path("named.json"));
  EXPECT_EQ(text_of("plain.json"), text_of("named.json"));
  EXPECT_THAT(text_of("plain.json"), HasSubstr("direct_publish"));
}

TEST_F(RunSchedule, AScheduleOfAnotherRunIsBadInput) {
  write("x.yaml", kFails);
  const auto outcome = run("run " + path("x.yaml") + " --schedule 0_9.77");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("dcpsim: error: the schedule was written of another run"));
}

TEST_F(RunSchedule, WhatIsNoScheduleIsRefused) {
  write("x.yaml", kFails);
  const auto outcome = run("run " + path("x.yaml") + " --schedule pcd");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err,
            "dcpsim: error: unknown value 'pcd' of '--schedule' (did you mean 'pct'?)\n");
  EXPECT_EQ(run("explain " + path("x.yaml") + " --schedule pct").exit_code, 2);
}

}  // namespace
}  // namespace dcp
