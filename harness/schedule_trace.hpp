// What ran when, on the schedule's own clock: one microsecond for each decision of the scheduler.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/host/scheduler.hpp"

namespace dcp {

struct TraceEvent {
  std::string_view op;
  int rank = 0;
  std::string stream;
  bool in_graph = false;      // a node of a launched graph, not an eager op
  int step = 0;               // index of the scenario's step
  std::int64_t begin_us = 0;  // a blocking op begins when it arrives
  std::int64_t end_us = 0;
  bool finished = true;  // false: still waiting when the work was given up
};

class ScheduleTrace final : public ScheduleObserver {
 public:
  void begin_step(int index) { step_ = index; }

  void stepped(TaskId id, const Task& task, bool done) override;
  void abandoned() override;

  // In the order in which they ended.
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  int step_ = 0;
  std::int64_t clock_us_ = 0;
  std::vector<TraceEvent> events_;
  std::map<TaskId, TraceEvent> waiting_;  // blocking ops that have arrived
};

}  // namespace dcp
