// Who decides what the scheduler does next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/op.hpp"
#include "runtime/host/arrivals.hpp"

namespace dcp {

// Number of a task since the scheduler was made. Tasks that are done stay valid as dependencies.
using TaskId = std::int64_t;

struct Task {
  const OpInfo* op = nullptr;    // null: a point in time, does nothing
  const void* params = nullptr;  // must stay valid until the task is done
  std::vector<std::byte> owned;  // params of an eager op live here
  int rank = 0;
  std::string where;             // stream or graph, for messages
  std::string_view stream = {};  // of a graph's node: the stream that it was captured on
};

// Something that the scheduler may do next.
struct Choice {
  const Task* task = nullptr;  // null: an arrival
  TaskId id = -1;              // of the task
  bool has_arrived = false;    // a blocking op that is ready to go on
  Arrival arrival = {};
};

class SchedulePolicy {
 public:
  virtual ~SchedulePolicy() = default;

  // Index of one of `choices`, of which there is at least one, in an order that depends on the past
  // only.
  virtual std::size_t choose(std::span<const Choice> choices) = 0;

  // Nothing is pending any more.
  virtual void drained() {}
};

}  // namespace dcp
