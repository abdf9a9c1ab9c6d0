// ag_rs: all-gather LSEs -> mask, scale own partial by its weight -> reduce-scatter over heads.
// Sends (N-1) * T*H*4 bytes of LSE and (N-1)/N * T*H*D*e bytes of output per rank.
#include "kernels/round_rows.hpp"
#include "strategies/gathered_lse.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

class AgRs final : public Strategy {
 public:
  std::string_view name() const override { return "ag_rs"; }
  std::string_view describe() const override {
    return "all-gather the LSEs, scale, reduce-scatter the outputs over heads";
  }
  bool keeps_all_heads() const override { return false; }

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    plan_gathered_lse(shape, plan);
    const std::int64_t heads = shape.heads_per_rank;
    plan.add("send", shape.reduce_dtype,
             {shape.world_size, shape.num_tokens, heads, shape.head_dim}, Lifetime::kWorkspace);
    if (shape.reduce_dtype != shape.dtype) {
      plan.add("recv", shape.reduce_dtype, {shape.num_tokens, heads, shape.head_dim},
               Lifetime::kWorkspace);
    }
  }

  void enqueue(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
               const Partials& partials, const Combined& combined) const override {
    const bool rounds = shape.reduce_dtype != shape.dtype;
    void* send = buffers.at("send");
    void* recv = rounds ? buffers.at("recv") : combined.out.data;
    enqueue_scaled_share(
        lane, shape, buffers, partials,
        {.out = {.data = send,
                 .strides = rank_major(shape.num_tokens, shape.heads_per_rank, shape.head_dim),
                 .dtype = shape.reduce_dtype},
         .lse = combined.lse,
         .first_lse_head = shape.rank * shape.heads_per_rank,
         .num_lse_heads = shape.heads_per_rank});
    lane.collective(
        CollectiveKind::kReduceScatter,
        {.send = send, .recv = recv, .count = part_elements(shape), .dtype = shape.reduce_dtype});
    if (rounds) {
      lane.enqueue<RoundRows>({.in = static_cast<const float*>(recv),
                               .out = combined.out.data,
                               .num_elements = part_elements(shape),
                               .dtype = shape.dtype});
    }
  }

  std::size_t egress_bytes(const StepShape& shape) const override {
    const auto peers = static_cast<std::size_t>(shape.world_size - 1);
    const auto lse = static_cast<std::size_t>(shape.num_tokens) * shape.num_heads * sizeof(float);
    return peers *
           (lse + static_cast<std::size_t>(part_elements(shape)) * size_bytes(shape.reduce_dtype));
  }

 private:
  static std::int64_t part_elements(const StepShape& shape) {
    return shape.num_tokens * shape.heads_per_rank * shape.head_dim;
  }
};

}  // namespace

const Strategy& ag_rs_strategy() {
  static const AgRs strategy;
  return strategy;
}

}  // namespace dcp
