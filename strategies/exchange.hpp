// What the direct exchanges share: flags, epoch, and the operations around the bytes that move.
// An exchange of a ubatch:
//
//   advance -> stores -> publish -> wait -> read
//
// Two slots are enough. A rank writes slot p for epoch e+2 only after its own exchange e+1 saw the
// flag e+1 of every peer, which each raises after it has read epoch e. That needs one stream (or an
// equal order of events) for each ubatch, the same calls on all ranks, flags that are compared
// exactly, and flags that are indexed by slot.
#pragma once

#include <string>
#include <string_view>

#include "kernels/direct_advance.hpp"
#include "kernels/direct_publish.hpp"
#include "kernels/direct_wait.hpp"
#include "strategies/buffers.hpp"
#include "strategies/lane.hpp"
#include "strategies/step_shape.hpp"

namespace dcp {

// The operations, so that a test may put a broken one in a place.
struct ExchangeOps {
  using Advance = DirectAdvance;
  using Publish = DirectPublish;
  using Wait = DirectWait;
};

// An exchange's buffers, which are of the rank and ubatch: flags [slots, num_blocks, N] and state.
struct ExchangeNames {
  std::string_view signals;
  std::string_view state;
  int num_blocks = 1;             // that may have flags of their own
  bool is_read_in_place = false;  // then the exchange itself does not tell what was consumed
};

void plan_exchange(const StepShape& shape, const ExchangeNames& names, BufferPlan& plan);

template <class Ops = ExchangeOps>
class Exchange {
 public:
  Exchange(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
           const ExchangeNames& names)
      : lane_(lane), shape_(shape), buffers_(buffers), names_(names) {}

  ExchangeState* state() const { return buffers_.at<ExchangeState>(names_.state); }
  std::uint32_t num_slots() const { return static_cast<std::uint32_t>(shape_.direct.slots); }
  RemoteStores* stores() const { return lane_.rank.peers->stores(); }

  DirectAdvance::Params advance() const { return {.state = state(), .num_slots = num_slots()}; }
  DirectPublish::Params publish() const {
    return {.state = state(),
            .signals = buffers_.peers<std::uint32_t>(names_.signals),
            .stores = stores(),
            .world_size = shape_.world_size,
            .rank = shape_.rank,
            .num_slots = num_slots(),
            .num_blocks = names_.num_blocks,
            .scope = lane_.rank.peers->flag_scope()};
  }
  DirectWait::Params wait() const {
    return {.state = state(),
            .signals = buffers_.at<std::uint32_t>(names_.signals),
            .stores = stores(),
            .bound = lane_.rank.peers->wait_bound(),
            .world_size = shape_.world_size,
            .rank = shape_.rank,
            .ubatch = lane_.ubatch,
            .num_slots = num_slots(),
            .num_blocks = names_.num_blocks,
            .scope = lane_.rank.peers->flag_scope()};
  }

  // The rank's stores come after this.
  void begin() const { lane_.enqueue<typename Ops::Advance>(advance()); }

  // The rank's loads of what its peers stored come after this.
  void publish_and_wait() const {
    lane_.enqueue<typename Ops::Publish>(publish());
    before_wait();
    lane_.enqueue<typename Ops::Wait>(wait());
  }

  // Comes before an op that waits.
  void before_wait() const { lane_.rank.peers->before_wait(lane_.ubatch, lane_.compute); }

 private:
  const Lane& lane_;
  const StepShape& shape_;
  const BufferSet& buffers_;
  ExchangeNames names_;
};

}  // namespace dcp
