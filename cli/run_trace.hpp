// The schedule of one run as Chrome trace events, readable by Perfetto and chrome://tracing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "harness/report.hpp"
#include "harness/schedule_trace.hpp"

namespace dcp {

// {"traceEvents", "displayTimeUnit", "otherData"}. pid = rank, tid = stream, both named. One
// complete event ("X") for each task, in the order in which they ended, with args step and graph
// (null for an eager op); `unfinished` where it still waited when the step was given up. Times are
// the scheduler's decisions, one microsecond each, not durations of a machine.
nlohmann::ordered_json trace_json(const ScheduleTrace& trace, const ScenarioReport& report,
                                  std::uint64_t seed);

}  // namespace dcp
