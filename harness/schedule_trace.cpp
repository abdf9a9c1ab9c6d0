#include "harness/schedule_trace.hpp"

#include <utility>

namespace dcp {

void ScheduleTrace::stepped(TaskId id, const Task& task, bool done) {
  const std::int64_t begin = clock_us_++;
  if (task.op == nullptr) return;  // a point in time, not work
  const OpInfo& op = *task.op;
  TraceEvent event{.op = op.label == nullptr ? op.name : op.label(task.params),
                   .rank = task.rank,
                   .stream = task.stream.empty() ? task.where : std::string(task.stream),
                   .in_graph = !task.stream.empty(),
                   .step = step_,
                   .begin_us = begin,
                   .end_us = clock_us_};
  if (!done) {
    waiting_.emplace(id, std::move(event));
    return;
  }
  if (const auto arrived = waiting_.find(id); arrived != waiting_.end()) {
    event.begin_us = arrived->second.begin_us;
    waiting_.erase(arrived);
  }
  events_.push_back(std::move(event));
}

void ScheduleTrace::abandoned() {
  for (auto& [id, event] : waiting_) {
    event.end_us = clock_us_;
    event.finished = false;
    events_.push_back(std::move(event));
  }
  waiting_.clear();
}

}  // namespace dcp
