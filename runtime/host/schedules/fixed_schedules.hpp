// Two schedules without a draw: every store to a peer is in effect at the earliest, or at the
// latest moment that the memory model allows. Between arrivals, the op that was enqueued first
// comes first.
#pragma once

#include "runtime/host/schedule_policy.hpp"

namespace dcp {

class EarliestStores final : public SchedulePolicy {
 public:
  std::size_t choose(std::span<const Choice> choices) override;
};

// Nothing arrives while an op can run; then flags come before rows, and a row gets into effect
// without an acquire only where nothing else is left.
class LatestStores final : public SchedulePolicy {
 public:
  std::size_t choose(std::span<const Choice> choices) override;
};

}  // namespace dcp
