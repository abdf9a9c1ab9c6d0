#include "strategies/gathered_lse.hpp"

#include <cassert>

#include "kernels/empty_shard_mask.hpp"
#include "kernels/lse_correct.hpp"

namespace dcp {

void plan_gathered_lse(const StepShape& shape, BufferPlan& plan) {
  if (shape.copies_lse) {
    plan.add("lse_send", DType::kFp32, {shape.num_tokens, shape.num_heads}, Lifetime::kWorkspace);
  }
  plan.add("lse_recv", DType::kFp32, {shape.world_size, shape.num_tokens, shape.num_heads},
           Lifetime::kWorkspace);
}

namespace {

// The lse that is sent: the partials' own, or a copy of it.
const void* lse_to_send(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                        const Partials& partials) {
  if (!shape.copies_lse) {
    assert(is_contiguous_lse(partials.lse, shape.num_heads));
    return partials.lse.data;
  }
  auto* copy = buffers.at<float>("lse_send");
  lane.enqueue<EmptyShardMask>({.lse = partials.lse,
                                .masked = copy,
                                .empty = empty_rows(shape, partials),
                                .num_tokens = shape.num_tokens,
                                .num_heads = shape.num_heads});
  return copy;
}

}  // namespace

void enqueue_scaled_share(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                          const Partials& partials, const ScaledShare& share) {
  auto* lse_recv = buffers.at<float>("lse_recv");
  const void* lse_send = lse_to_send(lane, shape, buffers, partials);
  lane.collective(CollectiveKind::kAllGather, {.send = lse_send,
                                               .recv = lse_recv,
                                               .count = shape.num_tokens * shape.num_heads,
                                               .dtype = DType::kFp32});
  lane.enqueue<LseCorrect>({.lses = lse_recv,
                            .empty_ranks = partials.empty_ranks,
                            .out = partials.out,
                            .scaled = share.out,
                            .lse = share.lse,
                            .num_tokens = shape.num_tokens,
                            .num_heads = shape.num_heads,
                            .head_dim = shape.head_dim,
                            .world_size = shape.world_size,
                            .rank = shape.rank,
                            .first_lse_head = share.first_lse_head,
                            .num_lse_heads = share.num_lse_heads,
                            .base = shape.lse.base});
}

}  // namespace dcp
