#include "cli/run_trace.hpp"

#include <gtest/gtest.h>

namespace dcp {
namespace {

using Json = nlohmann::ordered_json;

// Two ranks; rank 1 works in a graph and then waits in an eager op that is given up.
struct Recorded {
  Recorded() {
    append.name = "kv_append";
    gather.name = "all_gather";
    report.file = "x.yaml";
    report.strategy = "a2a";
    report.steps.resize(3);
    report.steps[2].graph = "g4";
    add(&append, 0, "compute", "", true);
    trace.begin_step(2);
    add(&append, 1, "capture 0", "compute", true);
    add(&gather, 1, "comm", "", false);
    trace.abandoned();
  }

  void add(const OpInfo* op, int rank, const char* where, const char* stream, bool done) {
    Task task;
    task.op = op;
    task.rank = rank;
    task.where = where;
    task.stream = stream;
    trace.stepped(next++, task, done);
  }

  OpInfo append{};
  OpInfo gather{};
  TaskId next = 0;
  ScheduleTrace trace;
  ScenarioReport report;
};

Json events_of_kind(const Json& json, const char* kind) {
  Json found = Json::array();
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == kind) found.push_back(event);
  }
  return found;
}

TEST(RunTrace, EachTaskIsACompleteEventOfItsRankAndStream) {
  const Recorded recorded;
  const Json events = events_of_kind(trace_json(recorded.trace, recorded.report, 9), "X");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], Json::parse(R"({"name": "kv_append", "cat": "eager", "ph": "X", "ts": 0,
    "dur": 1, "pid": 0, "tid": 1, "args": {"step": 0, "graph": null}})"));
  EXPECT_EQ(events[1], Json::parse(R"({"name": "kv_append", "cat": "graph", "ph": "X", "ts": 1,
    "dur": 1, "pid": 1, "tid": 1, "args": {"step": 2, "graph": "g4"}})"));
  EXPECT_EQ(events[2], Json::parse(R"({"name": "all_gather", "cat": "eager", "ph": "X", "ts": 2,
    "dur": 1, "pid": 1, "tid": 2, "args": {"step": 2, "graph": null, "unfinished": true}})"));
}

TEST(RunTrace, RanksAndStreamsHaveNames) {
  const Recorded recorded;
  const Json events = events_of_kind(trace_json(recorded.trace, recorded.report, 9), "M");
  std::map<std::string, std::string> names;
  for (const Json& event : events) {
    if (event["name"] == "process_sort_index") continue;
    names[event["name"].get<std::string>() + " " + event["pid"].dump() + " " +
          event["tid"].dump()] = event["args"]["name"].get<std::string>();
  }
  EXPECT_EQ(names, (std::map<std::string, std::string>{{"process_name 0 0", "rank 0"},
                                                       {"process_name 1 0", "rank 1"},
                                                       {"thread_name 0 1", "compute"},
                                                       {"thread_name 1 1", "compute"},
                                                       {"thread_name 1 2", "comm"}}));
}

TEST(RunTrace, SaysWhatItsClockIsAndWhatRan) {
  const Recorded recorded;
  const Json about = trace_json(recorded.trace, recorded.report, 9)["otherData"];
  EXPECT_EQ(about["clock"], "logical: one microsecond for each decision of the scheduler");
  EXPECT_EQ(about["file"], "x.yaml");
  EXPECT_EQ(about["strategy"], "a2a");
  EXPECT_EQ(about["seed"], 9);
}

}  // namespace
}  // namespace dcp
