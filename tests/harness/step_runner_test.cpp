// What a step is held to: each expectation must be able to fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "core/scenario_reader.hpp"
#include "harness/scenario_runner.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

using testing::HasSubstr;

constexpr const char* kHead = R"(schema: 1
world_size: 2
model: tiny
dtype: fp32
strategy: [a2a, ag_ar]
data: {kind: mean}
graph: {capture_sizes: [4]}
batches:
  two: {seq_lens: [5, 3]}
  other: {seq_lens: [1, 7]}
  bad: {seq_lens: [5, 3], query_start_loc: [0, 2, 1]}
  five: {seq_lens: [1, 2, 3, 4, 5]}
steps:
  - capture: all
)";

ScenarioReport run(const std::string& steps, const char* strategy = "a2a") {
  const Scenario scenario = parse_scenario("test.yaml", kHead + steps);
  return run_scenario(scenario, *find_strategy(strategy), {.seed = 1});
}

// The problems of the last step, joined; "" where it passed.
std::string problems(const std::string& steps, const char* strategy = "a2a") {
  const ScenarioReport report = run(steps, strategy);
  std::string text = report.bad_input;
  if (!report.steps.empty()) {
    for (const std::string& problem : report.steps.back().problems) text += problem + "\n";
  }
  return text;
}

TEST(StepRunner, ARightStepPassesWithAllLevelsChecked) {
  const ScenarioReport report = run("  - replay: two\n");
  EXPECT_EQ(report.status, Status::kPass);
  ASSERT_EQ(report.steps.size(), 2u);
  ASSERT_EQ(report.steps[1].checks.size(), 3u);
  for (const LevelReport& check : report.steps[1].checks) {
    EXPECT_TRUE(check.comparison.passed()) << check.level;
    EXPECT_LE(check.comparison.max_error_over_tolerance, 1.0) << check.level;
  }
}

TEST(StepRunner, AStepThatSplitsItsAttentionHasALevelForEachPart) {
  const Scenario scenario = parse_scenario(
      "test.yaml",
      "world_size: 2\nmodel: {attention: gqa, num_heads: 4, num_kv_heads: 2, head_dim: "
      "8}\nattention_split: context_then_new\nbatches:\n  two: {seq_lens: [5, 1]}\n"
      "steps:\n  - eager: two\n");
  const ScenarioReport report = run_scenario(scenario, *find_strategy("ag_rs"), {.seed = 1});
  EXPECT_EQ(report.status, Status::kPass);
  std::vector<std::string> levels;
  for (const LevelReport& check : report.steps.at(0).checks) levels.push_back(check.level);
  EXPECT_EQ(levels, (std::vector<std::string>{"partial", "combine", "new", "merge", "step"}));
  EXPECT_EQ(report.steps.at(0).ranks.at(0).empty_rows, std::vector<std::int64_t>{1})
      << "a first token is empty on every rank";
}

TEST(StepRunner, AWrongOutputIsNamedWithItsRow) {
  EXPECT_EQ(problems("  - replay: two\n    expect: {out: {0: 1.4, 1: 1.333333333}}\n"), "");
  EXPECT_THAT(problems("  - replay: two\n    expect: {out: {1: 1.4}}\n"),
              HasSubstr("expect.out: row 1 is 1.33333337, expected 1.4"));
  EXPECT_THAT(problems("  - replay: two\n    expect: {out: {7: 1.4}}\n"),
              HasSubstr("the step has no row 7"));
}

TEST(StepRunner, AWrongLseIsNamedWithItsRow) {
  EXPECT_EQ(problems("  - replay: two\n    expect: {lse: {0: 1.609437912, 2: -inf}}\n"), "");
  EXPECT_THAT(problems("  - replay: two\n    expect: {lse: {0: 1.6}}\n"),
              HasSubstr("expect.lse: row 0 is 1.6094379"));
}

TEST(StepRunner, EmptyRowsAreExactlyThoseNamed) {
  EXPECT_EQ(problems("  - replay: two\n    expect: {empty_rows: [2, 3]}\n"), "");
  EXPECT_THAT(problems("  - replay: two\n    expect: {empty_rows: [3]}\n"),
              HasSubstr("rows [2, 3] are empty, expected [3]"));
}

TEST(StepRunner, EagerRowsAreCounted) {
  EXPECT_EQ(problems("  - replay: five\n    expect: {eager_rows: 5}\n"), "");
  EXPECT_THAT(problems("  - replay: two\n    expect: {eager_rows: 2}\n"),
              HasSubstr("0 rows ran without a graph, expected 2"));
}

TEST(StepRunner, BitsAreComparedWithTheStepThatIsNamed) {
  EXPECT_EQ(problems("  - {replay: two, name: first}\n  - replay: other\n"
                     "  - eager: two\n    expect: {same_bits_as: first}\n"),
            "");
  EXPECT_THAT(problems("  - {replay: two, name: first}\n"
                       "  - replay: other\n    expect: {same_bits_as: first}\n"),
              HasSubstr("the bits differ from those of step first"));
}

TEST(StepRunner, AnErrorThatIsExpectedPassesAndAnotherKindFails) {
  EXPECT_EQ(problems("  - replay: bad\n    expect: {error: qsl_not_monotone}\n"), "");
  EXPECT_THAT(problems("  - replay: bad\n    expect: {error: capacity}\n"),
              HasSubstr("error qsl_not_monotone: query_start_loc falls from 2 to 1 at index 2 "
                        "(expected capacity)"));
  EXPECT_THAT(problems("  - replay: two\n    expect: {error: capacity}\n"),
              HasSubstr("expected error capacity, the step went through"));
}

TEST(StepRunner, ABadBatchThatIsNotExpectedIsBadInputAtTheBatch) {
  const ScenarioReport report = run("  - replay: bad\n");
  EXPECT_EQ(report.status, Status::kError);
  EXPECT_EQ(
      report.bad_input,
      "test.yaml:11:3: error: qsl_not_monotone: query_start_loc falls from 2 to 1 at index 2");
}

TEST(StepRunner, AGraphThatIsGoneIsBadInputAtTheStepAndNotAtItsBatch) {
  const ScenarioReport report =
      run("  - destroy: {graph: g4}\n"
          "  - replay: {graph: g4, batch: two}\n");
  EXPECT_EQ(report.bad_input, "test.yaml:16:5: error: no_such_graph: no graph is named 'g4'");
}

TEST(StepRunner, AnExpectedFailureThatDoesNotComeFails) {
  EXPECT_THAT(problems("  - replay: two\n    expect: {failures: [deadlock]}\n"),
              HasSubstr("expected failure deadlock, none was seen"));
}

TEST(StepRunner, AStrategysOwnExpectationIsLaidOverTheCommonOne) {
  const std::string steps =
      "  - replay: two\n    expect: {out: {0: 1.4}, by_strategy: {ag_ar: {out: {0: 1.5}}}}\n";
  EXPECT_EQ(problems(steps, "a2a"), "");
  EXPECT_THAT(problems(steps, "ag_ar"), HasSubstr("expected 1.5"));
}

TEST(StepRunner, TheStepAfterARefusedOneRuns) {
  EXPECT_EQ(problems("  - replay: bad\n    expect: {error: qsl_not_monotone}\n"
                     "  - replay: two\n    expect: {out: {0: 1.4}}\n"),
            "");
}

TEST(StepRunner, RanksAreDescribedWithTheirKeysAndEmptyRows) {
  const ScenarioReport report = run("  - replay: other\n");
  const StepReport& step = report.steps[1];
  ASSERT_EQ(step.ranks.size(), 2u);
  EXPECT_EQ(step.ranks[0].seq_lens, (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(step.ranks[1].seq_lens, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(step.ranks[0].empty_rows, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(step.ranks[1].empty_rows, (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(step.graph, "g4");
}

TEST(EndedReport, NamesTheFileWhateverWasThrown) {
  const auto text_of = [](const std::exception& error) {
    ScenarioReport report;
    report.file = "x.yaml";
    end_with(report, error);
    EXPECT_EQ(report.status, Status::kError);
    return report.bad_input;
  };
  EXPECT_EQ(text_of(InputError({"x.yaml", 2, 3}, "why")), "x.yaml:2:3: error: why");
  EXPECT_EQ(text_of(std::bad_alloc()), "x.yaml: error: this machine's memory does not hold it");
  EXPECT_EQ(text_of(std::length_error("vector")),
            "x.yaml: error: this machine's memory does not hold it");
  EXPECT_EQ(text_of(StepError("backend_unavailable", "no GPU")),
            "x.yaml: error: backend_unavailable: no GPU");
  EXPECT_EQ(text_of(std::runtime_error("odd")), "x.yaml: error: internal error: odd");
}

// The guard's share is of this machine's memory, so the step is one that no machine holds.
TEST(StepRunner, AStepThatDoesNotFitInMemoryIsRefusedBeforeItIsTried) {
  const Scenario scenario = parse_scenario("test.yaml", R"(
world_size: 64
model: {extends: deepseek-v3, num_heads: 1024}
graph: {capture_sizes: [1], max_num_tokens: 1048576}
batches: {b: {seq_lens: [5], rows: 1048576}}
)");
  const ScenarioReport report = run_scenario(scenario, *find_strategy("a2a"), {.seed = 1});
  EXPECT_EQ(report.status, Status::kError);
  EXPECT_THAT(report.bad_input, HasSubstr(": error: capacity: "));
}

TEST(DefaultSteps, CaptureAllThenReplayEveryBatchTwice) {
  const Scenario scenario =
      parse_scenario("test.yaml",
                     "schema: 1\nworld_size: 2\nmodel: tiny\nbatches: {a: {seq_lens: [5, 1]}, b: "
                     "{seq_lens: [3]}}\n");
  std::string verbs;
  for (const Step& step : default_steps(scenario)) verbs += step.verb_name + " ";
  EXPECT_EQ(verbs, "capture replay replay replay replay ");
  EXPECT_EQ(run_scenario(scenario, *find_strategy("a2a"), {.seed = 1}).status, Status::kPass);
}

}  // namespace
}  // namespace dcp
