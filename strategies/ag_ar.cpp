// ag_ar: all-gather LSEs -> mask, scale own partial by its weight -> all-reduce. Every rank ends
// with all heads. Sends (N-1) * T*H*4 bytes of LSE and 2 (N-1)/N * T*H*D*e bytes of output per
// rank.
#include "kernels/round_rows.hpp"
#include "strategies/gathered_lse.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

class AgAr final : public Strategy {
 public:
  std::string_view name() const override { return "ag_ar"; }
  std::string_view describe() const override {
    return "all-gather the LSEs, scale, all-reduce the outputs: every rank gets all heads";
  }
  bool keeps_all_heads() const override { return true; }

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    plan_gathered_lse(shape, plan);
    const std::vector<std::int64_t> rows = {shape.num_tokens, shape.num_heads, shape.head_dim};
    plan.add("send", shape.reduce_dtype, rows, Lifetime::kWorkspace);
    if (shape.reduce_dtype != shape.dtype) {
      plan.add("recv", shape.reduce_dtype, rows, Lifetime::kWorkspace);
    }
  }

  void enqueue(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
               const Partials& partials, const Combined& combined) const override {
    const bool rounds = shape.reduce_dtype != shape.dtype;
    void* send = buffers.at("send");
    void* recv = rounds ? buffers.at("recv") : combined.out.data;
    enqueue_scaled_share(lane, shape, buffers, partials,
                         {.out = {.data = send,
                                  .strides = token_major(shape.num_heads, shape.head_dim),
                                  .dtype = shape.reduce_dtype},
                          .lse = combined.lse,
                          .first_lse_head = 0,
                          .num_lse_heads = shape.num_heads});
    lane.collective(
        CollectiveKind::kAllReduce,
        {.send = send, .recv = recv, .count = num_elements(shape), .dtype = shape.reduce_dtype});
    if (rounds) {
      lane.enqueue<RoundRows>({.in = static_cast<const float*>(recv),
                               .out = combined.out.data,
                               .num_elements = num_elements(shape),
                               .dtype = shape.dtype});
    }
  }

  std::size_t egress_bytes(const StepShape& shape) const override {
    const auto peers = static_cast<std::size_t>(shape.world_size - 1);
    const auto lse = static_cast<std::size_t>(shape.num_tokens) * shape.num_heads * sizeof(float);
    const auto part = static_cast<std::size_t>(num_elements(shape) / shape.world_size) *
                      size_bytes(shape.reduce_dtype);
    return peers * (lse + 2 * part);
  }

 private:
  static std::int64_t num_elements(const StepShape& shape) {
    return shape.num_tokens * shape.num_heads * shape.head_dim;
  }
};

}  // namespace

const Strategy& ag_ar_strategy() {
  static const AgAr strategy;
  return strategy;
}

}  // namespace dcp
