// Hazards of a run: found in the step that causes them, held to what it expects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scenario_reader.hpp"
#include "harness/scenario_runner.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kHead = R"(schema: 1
world_size: 2
model: tiny
data: {kind: mean}
workspace: growable
graph: {capture_sizes: [2]}
batches:
  two: {seq_lens: [5, 3]}
  four: {seq_lens: [5, 3, 1, 7]}
steps:
  - capture: all
)";

ScenarioReport run(const std::string& steps, const std::string& head = kHead) {
  return run_scenario(parse_scenario("test.yaml", head + steps), *find_strategy("a2a"),
                      {.seed = 1});
}

// The problems of the step, joined; "" where it passed.
std::string problems(const ScenarioReport& report, std::size_t step) {
  std::string text = report.bad_input;
  for (const std::string& problem : report.steps.at(step).problems) text += problem + "\n";
  return text;
}

std::vector<std::string> kinds(const StepReport& step) {
  std::vector<std::string> kinds;
  for (const audit::Finding& hazard : step.hazards) kinds.push_back(hazard.kind);
  return kinds;
}

TEST(Hazards, BelongToTheStepThatCausesThemAndToEachLaunch) {
  const ScenarioReport report = run("  - eager: four\n  - eager: two\n  - replay: two\n");
  EXPECT_THAT(kinds(report.steps[0]), IsEmpty());
  EXPECT_THAT(kinds(report.steps[1]), ElementsAre("stale_pointer", "stale_pointer"))
      << "one for each rank";
  EXPECT_THAT(kinds(report.steps[2]), IsEmpty()) << "nothing new, and it launches no graph";
  EXPECT_THAT(kinds(report.steps[3]), ElementsAre("stale_pointer", "stale_pointer"));
  EXPECT_EQ(report.status, Status::kFail);
}

// All metadata goes up in one copy, but what was given back or replaced.
TEST(Hazards, NameTheMetadataThatACopyShouldNotFill) {
  const ScenarioReport report = run("  - free: seq_lens\n  - eager: two\n");
  const auto& hazards = report.steps.at(2).hazards;
  ASSERT_THAT(kinds(report.steps[2]), ElementsAre("use_after_free", "use_after_free"));
  EXPECT_EQ(hazards[0].buffer, "seq_lens");
  EXPECT_EQ(hazards[0].node, "memcpy");
  const ScenarioReport rebound = run("  - rebind: slot_mapping\n  - replay: two\n");
  ASSERT_THAT(kinds(rebound.steps[1]), ElementsAre("rebound_metadata", "rebound_metadata"));
  EXPECT_EQ(rebound.steps[1].hazards[0].buffer, "slot_mapping");
  EXPECT_EQ(rebound.steps[2].status, Status::kFail) << "the graph reads the slots of before";
}

TEST(Hazards, SayWhereWhyAndWhatToDo) {
  const ScenarioReport report = run("  - eager: four\n");
  const audit::Finding& hazard = report.steps.at(1).hazards.at(1);
  EXPECT_EQ(hazard.graph, "g2");
  EXPECT_EQ(hazard.node, "a2a_pack");
  EXPECT_EQ(hazard.argument, "send");
  EXPECT_EQ(hazard.buffer, "workspace");
  EXPECT_EQ(hazard.generation, 1u);
  EXPECT_EQ(hazard.rank, 1);
  EXPECT_THAT(hazard.why, HasSubstr("allocated in step 0, given back in step 1"));
  EXPECT_THAT(hazard.why, HasSubstr("steps now use generation 2"));
  EXPECT_THAT(hazard.advice, HasSubstr("capture g2 again"));
  EXPECT_THAT(problems(report, 1), HasSubstr("hazard stale_pointer, graph g2, rank 0, buffer "
                                             "workspace@1: a2a_pack (node 3, stream compute)"));
}

TEST(Hazards, AreHeldToTheExactSetOfKinds) {
  EXPECT_EQ(problems(run("  - eager: four\n    expect: {hazards: [stale_pointer]}\n"), 1), "");
  EXPECT_THAT(problems(run("  - eager: four\n    expect: {hazards: [pool_alias]}\n"), 1),
              testing::AllOf(HasSubstr("hazard stale_pointer, graph g2"),
                             HasSubstr("expected hazard pool_alias, none was found")));
  EXPECT_THAT(problems(run("  - eager: two\n    expect: {hazards: [stale_pointer]}\n"), 1),
              HasSubstr("expected hazard stale_pointer, none was found"));
}

TEST(Hazards, AnEntryMustMatchInAllThatItNames) {
  const auto with = [](const std::string& entry) {
    return problems(
        run("  - eager: four\n    expect: {hazards: [{kind: stale_pointer, " + entry + "}]}\n"), 1);
  };
  EXPECT_EQ(with("graph: g2, buffer: workspace, node: a2a_pack, rank: 1"), "");
  for (const char* wrong : {"graph: g4", "buffer: send", "node: kv_append", "ubatch: 1"}) {
    EXPECT_THAT(with(wrong), HasSubstr("expected hazard stale_pointer")) << wrong;
  }
}

TEST(Hazards, ResultOfALaunchWithAHazardIsNotChecked) {
  const std::string grown = "  - eager: four\n    expect: {hazards: [stale_pointer]}\n";
  EXPECT_EQ(problems(run(grown + "  - replay: two\n    expect: {hazards: [stale_pointer]}\n"), 2),
            "")
      << "although it reads memory that was given back";
  EXPECT_EQ(problems(run(grown + "  - replay: two\n    expect: {hazards: [stale_pointer], "
                                 "failures: [mismatch]}\n"),
                     2),
            "");
  EXPECT_THAT(problems(run(grown + "  - replay: two\n    expect: {hazards: [stale_pointer], "
                                   "out: {0: 1.4}}\n"),
                       2),
              HasSubstr("expect.out: row 0"))
      << "what is named is held to";
}

TEST(Hazards, AnExpectedMismatchMayHaveAHazardThatExplainsIt) {
  const std::string grown = "  - eager: four\n    expect: {hazards: [stale_pointer]}\n";
  const std::string mismatch = "  - replay: two\n    expect: {failures: [mismatch]}\n";
  EXPECT_EQ(problems(run(grown + mismatch), 2), "");
  EXPECT_THAT(problems(run(grown + "  - replay: two\n"), 2), HasSubstr("hazard stale_pointer"));
  EXPECT_EQ(problems(run("  - skip: {op: combine}\n" + mismatch), 2), "");
  EXPECT_THAT(problems(run("  - skip: {op: combine}\n  - replay: two\n    expect: {failures: "
                           "[mismatch], hazards: [uninit_read]}\n"),
                       2),
              HasSubstr("hazard unwritten_output"))
      << "what is named is held to";
}

TEST(Hazards, OfMemoryThatIsGivenBackOnPurposeCountWhereTheyAreMet) {
  const ScenarioReport report = run("  - free: {buffer: workspace}\n  - replay: two\n");
  EXPECT_THAT(kinds(report.steps[1]), ElementsAre("stale_pointer", "stale_pointer"));
  EXPECT_EQ(problems(report, 1), "");
  EXPECT_THAT(problems(report, 2), HasSubstr("hazard stale_pointer"));
  EXPECT_THAT(
      problems(run("  - free: {buffer: workspace}\n    expect: {hazards: [pool_alias]}\n"), 1),
      HasSubstr("hazard stale_pointer"));
}

TEST(Hazards, AGraphThatIsCapturedAnewHasNone) {
  const ScenarioReport report =
      run("  - eager: four\n    expect: {hazards: [stale_pointer]}\n  - capture: all\n"
          "  - replay: two\n");
  EXPECT_EQ(report.status, Status::kPass);
  EXPECT_THAT(kinds(report.steps[3]), IsEmpty());
}

TEST(Hazards, StepsThatArePendingTogetherNeedAnOrder) {
  const std::string steps =
      "  - replay: {batch: two, stream: s1, wait: false}\n"
      "  - eager: {batch: two, stream: s2, wait: false}\n";
  const ScenarioReport raced = run(steps);
  EXPECT_THAT(kinds(raced.steps[1]), IsEmpty());
  EXPECT_THAT(kinds(raced.steps[2]), ElementsAre("unordered_access", "unordered_access"));
  const ScenarioReport drained =
      run("  - replay: {batch: two, stream: s1, wait: false}\n  - sync: all\n"
          "  - eager: {batch: two, stream: s2, wait: false}\n");
  EXPECT_EQ(drained.status, Status::kPass);
}

TEST(Hazards, JoinedStreamsHaveAnOrder) {
  EXPECT_EQ(run("  - replay: {batch: two, stream: s1, wait: false}\n  - join: s1\n"
                "  - replay: {batch: two, wait: false}\n")
                .status,
            Status::kPass);
}

TEST(Hazards, NoRequestsAtCaptureAreAFrozenValueAndNoUndeclaredPointer) {
  const ScenarioReport report =
      run("  - set: {num_requests: 0}\n  - capture: {graph: none, batch: two}\n");
  EXPECT_THAT(kinds(report.steps.at(2)), testing::Each("frozen_host_value"));
  EXPECT_THAT(kinds(report.steps.at(2)), testing::Not(IsEmpty()));
}

TEST(Hazards, AnEagerStepNamesTheMemoryThatWasGivenBackBeforeIt) {
  const ScenarioReport report =
      run("  - eager: two\n  - free: {buffer: kv_cache, rank: 1}\n  - eager: two\n");
  EXPECT_THAT(kinds(report.steps.at(1)), IsEmpty());
  const auto& hazards = report.steps.at(3).hazards;
  ASSERT_THAT(kinds(report.steps.at(3)), ElementsAre("use_after_free")) << "the first user only";
  EXPECT_EQ(hazards[0].node, "kv_append");
  EXPECT_EQ(hazards[0].buffer, "kv_cache");
  EXPECT_EQ(hazards[0].generation, 1u);
  EXPECT_EQ(hazards[0].rank, 1);
  EXPECT_EQ(hazards[0].graph, "");
  EXPECT_THAT(hazards[0].why, HasSubstr("of step 3 on compute writes kv_cache@1"));
  EXPECT_THAT(hazards[0].why, HasSubstr("given back in step 2"));
}

}  // namespace
}  // namespace dcp
