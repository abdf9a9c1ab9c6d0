#include "harness/schedule_trace.hpp"

#include <gtest/gtest.h>

#include "core/scenario_reader.hpp"
#include "harness/scenario_runner.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

constexpr const char* kScenario = R"(schema: 1
world_size: 2
model: tiny
layers: 3
graph: {capture_sizes: [2]}
batches:
  two: {seq_lens: [5, 3]}
steps:
  - capture: all
  - replay: two
  - eager: two
)";

ScheduleTrace trace_of(std::uint64_t seed) {
  ScheduleTrace trace;
  const Scenario scenario = parse_scenario("test.yaml", kScenario);
  const ScenarioReport report =
      run_scenario(scenario, *find_strategy("a2a"), {.seed = seed, .trace = &trace});
  EXPECT_EQ(report.status, Status::kPass);
  return trace;
}

TEST(ScheduleTrace, HasOneEventForEachOpOfEachStep) {
  const ScheduleTrace trace = trace_of(1);
  std::map<std::tuple<std::string_view, int, int, bool>, int> count;  // op, step, rank, in graph
  for (const TraceEvent& event : trace.events()) {
    ++count[{event.op, event.step, event.rank, event.in_graph}];
  }
  for (const int rank : {0, 1}) {
    for (const char* op : {"kv_append", "mla_attention", "all_to_all", "a2a_combine"}) {
      EXPECT_EQ((count[{op, 0, rank, true}]), 0) << op;  // captured, not run
      EXPECT_EQ((count[{op, 1, rank, true}]), 3) << op;
      EXPECT_EQ((count[{op, 2, rank, false}]), 3) << op;
    }
  }
}

TEST(ScheduleTrace, IsInTheOrderOfTheSchedule) {
  const auto trace = trace_of(1);
  std::int64_t last_end = 0;
  for (const TraceEvent& event : trace.events()) {
    EXPECT_GT(event.end_us, last_end);
    EXPECT_LT(event.begin_us, event.end_us);
    last_end = event.end_us;
  }
}

TEST(ScheduleTrace, EventsOfAStreamDoNotOverlap) {
  const auto trace = trace_of(4);
  std::map<std::pair<int, std::string>, std::int64_t> ends;
  for (const TraceEvent& event : trace.events()) {
    std::int64_t& end = ends[{event.rank, event.stream}];
    EXPECT_GE(event.begin_us, end) << event.op;
    end = event.end_us;
  }
  EXPECT_EQ(ends.size(), 4u);  // compute and comm of two ranks
}

// Else a trace would not show who kept the others waiting.
TEST(ScheduleTrace, ACollectiveLastsFromItsArrivalOn) {
  std::map<int, std::vector<TraceEvent>> gathers;  // by rank
  const ScheduleTrace trace = trace_of(1);
  for (const TraceEvent& event : trace.events()) {
    if (event.op == "all_to_all") gathers[event.rank].push_back(event);
  }
  for (std::size_t i = 0; i < gathers[0].size(); ++i) {
    EXPECT_LT(gathers[0][i].begin_us, gathers[1][i].end_us);
    EXPECT_LT(gathers[1][i].begin_us, gathers[0][i].end_us);
  }
}

TEST(ScheduleTrace, WatchingDoesNotChangeTheRun) {
  const Scenario scenario = parse_scenario("test.yaml", kScenario);
  ScheduleTrace first;
  ScheduleTrace other_seed;
  run_scenario(scenario, *find_strategy("a2a"), {.seed = 1, .trace = &first});
  run_scenario(scenario, *find_strategy("a2a"), {.seed = 2, .trace = &other_seed});
  const auto order = [](const ScheduleTrace& trace) {
    std::vector<std::pair<int, std::string_view>> ops;
    for (const TraceEvent& event : trace.events()) ops.emplace_back(event.rank, event.op);
    return ops;
  };
  EXPECT_EQ(order(first), order(trace_of(1)));
  EXPECT_NE(order(first), order(other_seed));
}

TEST(ScheduleTrace, WhatIsGivenUpIsShownAsUnfinished) {
  OpInfo gate{};
  gate.name = "gate";
  ScheduleTrace trace;
  trace.begin_step(5);
  Task task;
  task.op = &gate;
  task.rank = 1;
  task.where = "comm";
  trace.stepped(0, task, false);
  trace.stepped(1, task, true);
  trace.abandoned();
  trace.abandoned();
  ASSERT_EQ(trace.events().size(), 2u);
  EXPECT_TRUE(trace.events()[0].finished);
  const TraceEvent& event = trace.events()[1];
  EXPECT_FALSE(event.finished);
  EXPECT_EQ(event.step, 5);
  EXPECT_EQ(event.begin_us, 0);
  EXPECT_EQ(event.end_us, 2);
}

}  // namespace
}  // namespace dcp
