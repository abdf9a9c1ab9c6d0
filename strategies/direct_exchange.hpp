// The exchange of the direct strategy, over the operations that do it.
#pragma once

#include "kernels/a2a_combine.hpp"
#include "kernels/direct_exchange.hpp"
#include "kernels/direct_read.hpp"
#include "strategies/exchange.hpp"
#include "strategies/strategy.hpp"

namespace dcp {

struct DirectOps : ExchangeOps {
  using Dispatch = DirectDispatch;
  using Read = DirectRead;
};

inline ExchangeNames direct_names(const StepShape& shape) {
  const bool is_fused = shape.direct.form == DirectForm::kFused;
  return {.signals = "signals", .state = "epoch", .num_blocks = is_fused ? kExchangeBlocks : 1};
}

// Buffers payload [slots, N, max T, h, D] and lse_slots [slots, N, max T, h], signals and epoch,
// and received: PackedRows in the split layout.
void plan_direct_exchange(const StepShape& shape, BufferPlan& plan);

// Stores to the peers: which rows, and where they go.
template <class Ops>
DirectDispatch::Params dispatch_params(const Exchange<Ops>& exchange, const StepShape& shape,
                                       const BufferSet& buffers, const Partials& partials) {
  return {.out = partials.out,
          .lse = partials.lse,
          .payload = buffers.peers("payload"),
          .lse_slots = buffers.peers<float>("lse_slots"),
          .state = exchange.state(),
          .empty = empty_rows(shape, partials),
          .stores = exchange.stores(),
          .num_tokens = shape.num_tokens,
          .max_num_tokens = shape.max_exchange_tokens,
          .num_heads = shape.num_heads,
          .head_dim = shape.head_dim,
          .world_size = shape.world_size,
          .rank = shape.rank,
          .num_slots = exchange.num_slots()};
}

// Combines rows that lie in `received`.
void enqueue_direct_combine(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                            const Combined& combined);

// As Strategy::enqueue.
template <class Ops = DirectOps>
void enqueue_direct_exchange(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                             const Partials& partials, const Combined& combined) {
  const Exchange<Ops> exchange(lane, shape, buffers, direct_names(shape));
  exchange.begin();
  lane.enqueue<typename Ops::Dispatch>(dispatch_params(exchange, shape, buffers, partials));
  exchange.publish_and_wait();
  lane.enqueue<typename Ops::Read>({.payload = buffers.at("payload"),
                                    .lse_slots = buffers.at<float>("lse_slots"),
                                    .received = buffers.at("received"),
                                    .state = exchange.state(),
                                    .num_tokens = shape.num_tokens,
                                    .max_num_tokens = shape.max_exchange_tokens,
                                    .heads_per_rank = shape.heads_per_rank,
                                    .head_dim = shape.head_dim,
                                    .world_size = shape.world_size,
                                    .num_slots = exchange.num_slots(),
                                    .dtype = shape.dtype});
  enqueue_direct_combine(lane, shape, buffers, combined);
}

}  // namespace dcp
