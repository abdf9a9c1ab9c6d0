// a2a: pack output and LSE (mask fused) -> one all-to-all -> unpack and combine.
// Sends (N-1)/N * T*H*(D*e + 4) bytes per rank.
#include "kernels/a2a_combine.hpp"
#include "kernels/a2a_pack.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

class A2a final : public Strategy {
 public:
  std::string_view name() const override { return "a2a"; }
  std::string_view describe() const override {
    return "pack outputs and LSEs, one all-to-all over heads, combine";
  }
  bool keeps_all_heads() const override { return false; }

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    for (const char* buffer : {"send", "recv"}) {
      plan.add(buffer, shape.dtype, packed_shape(shape), Lifetime::kWorkspace);
    }
  }

  void enqueue(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
               const Partials& partials, const Combined& combined) const override {
    void* send = buffers.at("send");
    void* recv = buffers.at("recv");
    lane.enqueue<A2aPack>({.out = partials.out,
                           .lse = partials.lse,
                           .send = send,
                           .empty = empty_rows(shape, partials),
                           .num_tokens = shape.num_tokens,
                           .num_heads = shape.num_heads,
                           .head_dim = shape.head_dim,
                           .world_size = shape.world_size,
                           .layout = shape.a2a_layout});
    lane.collective(CollectiveKind::kAllToAll, {.send = send,
                                                .recv = recv,
                                                .count = packed(shape).elements_per_peer(),
                                                .dtype = shape.dtype});
    lane.enqueue<A2aCombine>({.recv = recv,
                              .out = combined.out,
                              .lse = combined.lse,
                              .num_tokens = shape.num_tokens,
                              .heads_per_rank = shape.heads_per_rank,
                              .head_dim = shape.head_dim,
                              .world_size = shape.world_size,
                              .base = shape.lse.base,
                              .layout = shape.a2a_layout});
  }

  std::size_t egress_bytes(const StepShape& shape) const override {
    return static_cast<std::size_t>(shape.world_size - 1) *
           static_cast<std::size_t>(packed(shape).elements_per_peer()) * size_bytes(shape.dtype);
  }

 private:
  static PackedRows packed(const StepShape& shape) {
    return {.num_tokens = shape.num_tokens,
            .world_size = shape.world_size,
            .heads_per_rank = shape.heads_per_rank,
            .head_dim = shape.head_dim,
            .dtype = shape.dtype,
            .layout = shape.a2a_layout};
  }

  // [N, T, h, D + lanes]; of the split layout, whose rows are in two places, [N, T*h*(D + lanes)].
  static std::vector<std::int64_t> packed_shape(const StepShape& shape) {
    if (shape.a2a_layout == A2aLayout::kSplit) {
      return {shape.world_size, packed(shape).elements_per_peer()};
    }
    return {shape.world_size, shape.num_tokens, shape.heads_per_rank,
            shape.head_dim + lse_lanes(shape.dtype)};
  }
};

}  // namespace

const Strategy& a2a_strategy() {
  static const A2a strategy;
  return strategy;
}

}  // namespace dcp
