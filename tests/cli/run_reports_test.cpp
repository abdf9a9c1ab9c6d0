// What `run` leaves for other programs, and what it shows while it runs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/safetensors.hpp"
#include "tests/cli/program.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kScenario = R"(schema: 1
world_size: 2
model: tiny
strategy: [a2a, ag_rs]
batches:
  two: {seq_lens: [5, 3]}
)";

class RunReports : public test::ProgramTest {
 protected:
  void SetUp() override {
    for (const char* file : {"a.yaml", "b.yaml", "c.yaml"}) write(file, kScenario);
    write("wrong.yaml", std::string(kScenario) +
                            "steps: [{replay: two, expect: {lse: {0: 9}, empty_rows: [1]}}]\n");
  }

  std::string in(const std::string& file) const { return "'" + path(file) + "'"; }

  std::set<std::string> files_below(const std::string& folder) const {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path(folder))) {
      if (!entry.is_regular_file()) continue;
      files.insert(fs::relative(entry.path(), path(folder)).string());
    }
    return files;
  }

  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(text_of(file));
  }
};

// Without the times, which differ from run to run.
std::string timeless(const std::string& text) {
  return std::regex_replace(text, std::regex(R"([0-9.]+ ms|"seconds": [0-9.e-]+)"), "?");
}

TEST_F(RunReports, AStepThatFallsShortIsShownWithItsPlace) {
  const Outcome failed = run("run " + in("wrong.yaml") + " --strategy a2a");
  EXPECT_THAT(failed.out, HasSubstr("FAIL  step 0 replay two  " + path("wrong.yaml") + ":7:9\n"));
  write("refused.yaml", std::string(kScenario) +
                            "steps: [{eager: two}, {allocate: {name: x, bytes: 8, in: device}}, "
                            "{allocate: {name: x, bytes: 8, in: device}}]\n");
  const Outcome refused = run("run " + in("refused.yaml") + " --strategy a2a");
  EXPECT_THAT(refused.out, HasSubstr("  pass  step 0 eager two"));
  EXPECT_THAT(refused.out, HasSubstr("  REFUSED  step 2 allocate x, 8 bytes in device\n"));
  EXPECT_THAT(refused.out, Not(HasSubstr("expected error")));
}

TEST_F(RunReports, ADumpOfOneRunIsInTheFolderItself) {
  EXPECT_EQ(run("run " + in("a.yaml") + " --strategy a2a --dump " + in("dump")).exit_code, 0);
  const auto files = files_below("dump");
  EXPECT_EQ(files.size(), 8u);  // two replays
  EXPECT_EQ(files.count("step-1.rank-0.safetensors"), 1u);
  EXPECT_EQ(read_safetensors(path("dump/step-1.rank-0.safetensors")).metadata.at("scenario"),
            kScenario);
}

TEST_F(RunReports, DumpsOfSeveralRunsHaveAFolderForEachFileAndStrategy) {
  EXPECT_EQ(run("run " + in("a.yaml") + " " + in("b.yaml") + " --dump " + in("dump")).exit_code, 0);
  const auto files = files_below("dump");
  EXPECT_EQ(files.size(), 32u);
  for (const char* file :
       {"a/a2a/step-2.inputs.safetensors", "b/ag_rs/step-1.rank-1.safetensors"}) {
    EXPECT_EQ(files.count(file), 1u) << file;
  }
}

TEST_F(RunReports, AFolderWithADumpIsRefusedBeforeAnythingRuns) {
  ASSERT_EQ(run("run " + in("a.yaml") + " --dump " + in("dump")).exit_code, 0);
  const auto files = files_below("dump");
  const Outcome outcome = run("run " + in("b.yaml") + " --strategy a2a --dump " + in("dump"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              HasSubstr(path("dump") + ": error: holds a dump already: " + path("dump/a/")));
  EXPECT_EQ(files_below("dump"), files);
}

TEST_F(RunReports, DumpsThatWouldMixAreRefused) {
  fs::create_directory(path("other"));
  write("other/a.yaml", kScenario);
  const Outcome outcome =
      run("run " + in("a.yaml") + " " + in("other/a.yaml") + " --dump " + in("dump"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "dcpsim: error: '--dump' needs file names that differ: " + path("a.yaml") +
                             " and " + path("other/a.yaml") + "\n");
  EXPECT_FALSE(fs::exists(path("dump")));
}

TEST_F(RunReports, JunitHasEveryStepAndWhatFellShort) {
  const Outcome outcome =
      run("run " + in("a.yaml") + " " + in("wrong.yaml") + " --junit " + in("x.xml"));
  EXPECT_EQ(outcome.exit_code, 1);
  boost::property_tree::ptree tree;
  read_xml(path("x.xml"), tree);
  EXPECT_EQ(tree.get<int>("testsuites.<xmlattr>.tests"), 8);
  EXPECT_EQ(tree.get<int>("testsuites.<xmlattr>.failures"), 2);
  EXPECT_THAT(text_of("x.xml"), HasSubstr("expect.empty_rows: rows [] are empty, expected [1]"));
}

TEST_F(RunReports, ReportsSurviveAFileNameThatIsNoText) {
  write("n\xFF<.yaml", kScenario);
  const Outcome outcome =
      run("run " + in("n\xFF<.yaml") + " --junit " + in("x.xml") + " --json " + in("x.json"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(text_of("x.xml"), HasSubstr("n\xEF\xBF\xBD&lt;.yaml"));
  EXPECT_THAT(json("x.json")["scenarios"][0]["file"].get<std::string>(),
              HasSubstr("n\xEF\xBF\xBD<.yaml"));
}

TEST_F(RunReports, ATraceHasTheTasksOfTheRun) {
  EXPECT_EQ(run("run " + in("a.yaml") + " --strategy ag_rs --trace " + in("t.json")).exit_code, 0);
  std::map<std::string, int> count;
  const auto trace = json("t.json");
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++count[event["name"].get<std::string>()];
  }
  EXPECT_EQ(count["mla_attention"], 4);  // two ranks, two replays
  EXPECT_EQ(count["reduce_scatter"], 4);
}

TEST_F(RunReports, ATraceIsOfOneScenarioAndOneStrategy) {
  const std::string rule = "dcpsim: error: '--trace' shows one scenario under one strategy: ";
  const Outcome two_files =
      run("run " + in("a.yaml") + " " + in("b.yaml") + " --trace " + in("t.json"));
  EXPECT_EQ(two_files.exit_code, 2);
  EXPECT_EQ(two_files.err, rule + "these are 2 scenarios\n");
  const Outcome two_strategies = run("run " + in("a.yaml") + " --trace " + in("t.json"));
  EXPECT_EQ(two_strategies.exit_code, 2);
  EXPECT_EQ(two_strategies.err,
            rule + path("a.yaml") + " runs under 2; '--strategy' chooses one\n");
  EXPECT_FALSE(fs::exists(path("t.json")));
}

TEST_F(RunReports, WhatCannotBeWrittenIsSaidBeforeAnythingRuns) {
  for (const char* option : {"--json", "--junit", "--dump"}) {
    const Outcome outcome =
        run("run " + in("a.yaml") + " " + option + " '" + path("a.yaml/x") + "'");
    EXPECT_EQ(outcome.exit_code, 2) << option;
    EXPECT_THAT(outcome.out, IsEmpty()) << option;
    EXPECT_THAT(outcome.err, HasSubstr("error: cannot ")) << option;
  }
}

TEST_F(RunReports, AReportNeverReplacesAnInput) {
  const std::string before = text_of("a.yaml");
  for (const char* option : {"--json", "--junit", "--trace"}) {
    for (const std::string& input : {in("a.yaml"), "'" + path(".") + "'"}) {
      const Outcome outcome = run("run " + input + " " + option + " " + in("a.yaml"));
      EXPECT_EQ(outcome.exit_code, 2) << option << " " << input;
      EXPECT_THAT(outcome.err, HasSubstr("would overwrite this file")) << option << " " << input;
      EXPECT_EQ(text_of("a.yaml"), before) << option << " " << input;
    }
  }
}

TEST_F(RunReports, ARunOfNothingIsAnError) {
  const Outcome outcome = run("run " + in("a.yaml") + " --set 'only={backend: cuda}'");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("nothing ran"));
}

TEST_F(RunReports, JsonNamesTheToolAndHasEveryFieldOfAStep) {
  run("run " + in("wrong.yaml") + " --strategy a2a --seed 5 --json " + in("x.json"));
  const auto report = json("x.json");
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["tool"], (nlohmann::json{{"name", "dcpsim"},
                                            {"version", DCPSIM_VERSION},
                                            {"backend", "host"},
                                            {"comm", "simulated"},
                                            {"seed", 5},
                                            {"gpu", nullptr},
                                            {"driver", nullptr},
                                            {"nccl", nullptr}}));
  const auto& scenario = report["scenarios"].at(0);
  for (const char* field : {"file", "strategy", "status", "seconds", "error", "steps"}) {
    EXPECT_TRUE(scenario.contains(field)) << field;
  }
  const auto& step = scenario["steps"].at(0);
  for (const char* field :
       {"index",  "line",       "column",       "name",     "verb",         "status",   "graph",
        "rows",   "eager_rows", "egress_bytes", "op_nodes", "kernel_nodes", "launches", "seconds",
        "checks", "hazards",    "failures",     "error",    "ranks",        "problems"}) {
    EXPECT_TRUE(step.contains(field)) << field;
  }
  EXPECT_EQ(step["status"], "fail");
  EXPECT_EQ(step["checks"].at(0)["level"], "partial");
  EXPECT_TRUE(step["checks"][0]["first_bad"].is_null());
}

TEST_F(RunReports, HazardsAreInEveryReport) {
  write("stale.yaml", std::string(kScenario) +
                          "steps: [{capture: all}, {free: {buffer: send, graph: g2}, expect: "
                          "{hazards: [stale_pointer]}}, {replay: two}]\n");
  const Outcome outcome = run("run " + in("stale.yaml") + " --strategy a2a --json " + in("x.json") +
                              " --junit " + in("x.xml"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("hazard stale_pointer, graph g2, rank 0, buffer send@1"));
  const auto steps = json("x.json")["scenarios"].at(0)["steps"];
  EXPECT_THAT(steps[0]["hazards"], IsEmpty());
  for (const char* field : {"kind", "graph", "node", "argument", "buffer", "generation", "rank",
                            "ubatch", "why", "advice"}) {
    EXPECT_TRUE(steps[1]["hazards"].at(0).contains(field)) << field;
  }
  EXPECT_EQ(steps[1]["status"], "pass");
  EXPECT_EQ(steps[2]["hazards"].at(1)["rank"], 1);
  const std::string xml = text_of("x.xml");
  EXPECT_THAT(xml, HasSubstr("<system-out>stale_pointer, graph g2"));
  EXPECT_THAT(xml, HasSubstr("hazard stale_pointer, graph g2"));
}

TEST_F(RunReports, JsonCountsTheGraphsOpsAndLaunches) {
  write("counts.yaml",
        "schema: 1\nworld_size: 2\nmodel: tiny\nlayers: 3\nstrategy: a2a\n"
        "batches: {two: {seq_lens: [5, 3]}}\nsteps:\n"
        "  - capture: all\n  - replay: {batch: two, times: 4}\n  - eager: two\n");
  EXPECT_EQ(run("run " + in("counts.yaml") + " --json " + in("x.json")).exit_code, 0);
  const auto steps = json("x.json")["scenarios"].at(0)["steps"];
  EXPECT_EQ(steps.at(1)["launches"], 4);
  EXPECT_EQ(steps[1]["op_nodes"], 3 * 7 - 1) << "the last layer has no query to project";
  EXPECT_TRUE(steps[1]["kernel_nodes"].is_null()) << "the host has no kernels";
  EXPECT_EQ(steps[2]["launches"], 0);
  EXPECT_EQ(steps[2]["op_nodes"], 0);
}

// The corpus holds scenarios of very different length, so that later ones end first.
TEST_F(RunReports, OutputDoesNotDependOnTheNumberOfJobs) {
  const std::string corpus =
      "run '" DCPSIM_SOURCE_DIR "/scenarios' --filter '*dcp[234]-*' --no-color --json ";
  const Outcome one = run(corpus + in("1.json") + " --jobs 1");
  const Outcome four = run(corpus + in("4.json") + " --jobs 4");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_GT(one.out.size(), 2000u);
  // Not EXPECT_EQ: to show how two long texts differ takes the product of their lengths.
  EXPECT_TRUE(timeless(one.out) == timeless(four.out));
  EXPECT_TRUE(timeless(text_of("1.json")) == timeless(text_of("4.json")));
}

TEST_F(RunReports, AFilterChoosesByPathOrName) {
  const auto ran = [&](const std::string& glob) {
    const Outcome outcome =
        run("run '" + path("") + "' --json " + in("x.json") + " --filter '" + glob + "'");
    std::set<std::string> names;
    if (outcome.exit_code != 0) return names;
    const auto report = json("x.json");
    for (const auto& scenario : report["scenarios"]) {
      names.insert(fs::path(scenario["file"].get<std::string>()).stem());
    }
    return names;
  };
  EXPECT_THAT(ran("b"), ElementsAre("b"));
  EXPECT_THAT(ran("[ac]"), ElementsAre("a", "c"));
  EXPECT_THAT(ran("*/c.yaml"), ElementsAre("c"));
  const Outcome none = run("run '" + path("") + "' --filter nothing");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.err, "dcpsim: error: no scenario matches the filter\n");
}

TEST_F(RunReports, OptionsThatMeanNothingToACommandAreRefused) {
  for (const char* option : {"--junit", "--trace", "--dump"}) {
    for (const std::string command : {"list", "doctor", "check " DCPSIM_SOURCE_DIR}) {
      const Outcome outcome = run(command + " " + option + " x");
      EXPECT_EQ(outcome.exit_code, 2) << command;
      EXPECT_EQ(outcome.err, std::string("dcpsim: error: '") + option + "' does not apply to '" +
                                 command.substr(0, command.find(' ')) + "'\n");
    }
  }
}

// The other side of a terminal that the program writes to.
class Terminal {
 public:
  Terminal() : fd_(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
    grantpt(fd_);
    unlockpt(fd_);
    side_ = open(ptsname(fd_), O_RDWR | O_NOCTTY);  // keeps what was written until it is read
  }
  ~Terminal() {
    close(side_);
    close(fd_);
  }
  std::string name() const { return ptsname(fd_); }
  std::string text() const {
    std::string text(4096, '\0');
    const ssize_t size = read(fd_, text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return text;
  }

 private:
  int fd_;
  int side_;
};

class RunProgress : public RunReports {
 protected:
  // What a terminal behind stderr gets. In a folder of its own, so that the line is not cut.
  std::string shown(const std::string& options, const std::string& error_to = "") const {
    const Terminal terminal;
    const std::string to = error_to.empty() ? terminal.name() : error_to;
    const std::string command = "cd '" + path("") + "' && '" DCPSIM_BINARY "' run a.yaml b.yaml " +
                                options + " --jobs 1 >out 2>'" + to + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return terminal.text();
  }
};

TEST_F(RunProgress, ATerminalShowsALineThatIsErasedAtTheEnd) {
  const std::string text = shown("");
  EXPECT_THAT(text, testing::MatchesRegex("(  [0-2]/2 scenarios(, now [ab].yaml)?\r *\r)+"));
  EXPECT_THAT(text_of("out"), Not(HasSubstr("scenarios, now")));
}

TEST_F(RunProgress, PlainOutputHasNoLine) { EXPECT_EQ(shown("--no-color"), ""); }

TEST_F(RunProgress, APipeHasNoLine) {
  shown("", path("err"));
  EXPECT_EQ(text_of("err"), "");
}

}  // namespace
}  // namespace dcp
