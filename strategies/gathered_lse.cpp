#include "strategies/gathered_lse.hpp"

#include "kernels/empty_shard_mask.hpp"
#include "kernels/lse_correct.hpp"

namespace dcp {

void plan_gathered_lse(const StepShape& shape, BufferPlan& plan) {
  plan.add("lse_send", DType::kFp32, {shape.num_tokens, shape.num_heads}, Lifetime::kWorkspace);
  plan.add("lse_recv", DType::kFp32, {shape.world_size, shape.num_tokens, shape.num_heads},
           Lifetime::kWorkspace);
}

void enqueue_scaled_share(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                          const Partials& partials, const ScaledShare& share) {
  auto* lse_send = buffers.at<float>("lse_send");
  auto* lse_recv = buffers.at<float>("lse_recv");
  lane.enqueue<EmptyShardMask>({.lse = partials.lse,
                                .masked = lse_send,
                                .batch = partials.batch,
                                .num_tokens = shape.num_tokens,
                                .num_heads = shape.num_heads});
  lane.collective(CollectiveKind::kAllGather, {.send = lse_send,
                                               .recv = lse_recv,
                                               .count = shape.num_tokens * shape.num_heads,
                                               .dtype = DType::kFp32});
  lane.enqueue<LseCorrect>({.lses = lse_recv,
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
