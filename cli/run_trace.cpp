#include "cli/run_trace.hpp"

#include <map>
#include <utility>

namespace dcp {

namespace {

using Json = nlohmann::ordered_json;
using ThreadIds = std::map<std::pair<int, std::string>, int>;  // (rank, stream) -> tid

Json name_event(const char* what, int pid, int tid, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

// Names each rank and stream before the first event that needs it.
ThreadIds name_threads(const ScheduleTrace& trace, Json& events) {
  ThreadIds ids;
  std::map<int, int> num_streams;  // of each rank
  for (const TraceEvent& event : trace.events()) {
    const auto [thread, is_new] = ids.try_emplace({event.rank, event.stream}, 0);
    if (!is_new) continue;
    int& count = num_streams[event.rank];
    if (count == 0) {
      events.push_back(
          name_event("process_name", event.rank, 0, "rank " + std::to_string(event.rank)));
      events.push_back({{"name", "process_sort_index"},
                        {"ph", "M"},
                        {"pid", event.rank},
                        {"tid", 0},
                        {"args", {{"sort_index", event.rank}}}});
    }
    thread->second = ++count;
    events.push_back(name_event("thread_name", event.rank, thread->second, event.stream));
  }
  return ids;
}

Json task_event(const TraceEvent& event, int tid, const ScenarioReport& report) {
  Json args = {{"step", event.step}, {"graph", nullptr}};
  if (event.in_graph) args["graph"] = report.steps.at(static_cast<std::size_t>(event.step)).graph;
  if (!event.finished) args["unfinished"] = true;
  return {{"name", event.op},
          {"cat", event.in_graph ? "graph" : "eager"},
          {"ph", "X"},
          {"ts", event.begin_us},
          {"dur", event.end_us - event.begin_us},
          {"pid", event.rank},
          {"tid", tid},
          {"args", std::move(args)}};
}

}  // namespace

nlohmann::ordered_json trace_json(const ScheduleTrace& trace, const ScenarioReport& report,
                                  std::uint64_t seed) {
  Json events = Json::array();
  const ThreadIds ids = name_threads(trace, events);
  for (const TraceEvent& event : trace.events()) {
    events.push_back(task_event(event, ids.at({event.rank, event.stream}), report));
  }
  return {{"traceEvents", std::move(events)},
          {"displayTimeUnit", "ms"},
          {"otherData",
           {{"clock", "logical: one microsecond for each decision of the scheduler"},
            {"version", "dcpsim " DCPSIM_VERSION},
            {"file", report.file},
            {"strategy", report.strategy},
            {"seed", seed}}}};
}

}  // namespace dcp
