#include "engine/query_stage.hpp"

#include <algorithm>

namespace dcp {

namespace {

std::size_t query_bytes(const StepShape& shape, int num_heads) {
  return static_cast<std::size_t>(shape.num_tokens) * num_heads * shape.qk_head_dim *
         size_bytes(shape.dtype);
}

// `gathers_input`: ranks start with h heads of layer 0, else with all H. `gathers_next`: later
// layers start with h heads.
class GatheredQuery final : public QueryStage {
 public:
  GatheredQuery(bool gathers_input, bool gathers_next)
      : gathers_input_(gathers_input), gathers_next_(gathers_next) {}

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    if (shape.layers > 1) {
      plan.add("q_next", shape.dtype,
               {shape.layers, shape.num_tokens, num_local_heads(shape), shape.qk_head_dim},
               Lifetime::kActivation);
    }
    if (gathers_input_ || (gathers_next_ && shape.layers > 1)) {
      // Kernels of fixed head count read padded_num_heads in the last token's row too.
      const int heads = std::max(shape.num_heads, shape.padded_num_heads);
      plan.add("q_gathered", shape.dtype,
               {shape.layers, shape.num_tokens, heads, shape.qk_head_dim}, Lifetime::kActivation);
    }
  }

  void enqueue(const StageContext& context, int layer) const override {
    if (!gathers(layer)) return;
    const StepShape& shape = context.shape;
    const void* send =
        layer == 0 ? context.inputs.query : local(shape, context.buffers, layer).data;
    context.lane.collective(CollectiveKind::kAllGather,
                            {.send = send,
                             .recv = gather_target(shape, context.buffers, layer),
                             .count = shape.num_tokens * shape.heads_per_rank * shape.qk_head_dim,
                             .dtype = shape.dtype});
  }

  ConstHeadRows gathered(const StepShape& shape, const BufferSet& buffers, const StepInputs& inputs,
                         int layer) const override {
    if (gathers(layer)) {
      return {.data = gather_target(shape, buffers, layer),
              .strides = rank_major(shape.num_tokens, shape.heads_per_rank, shape.qk_head_dim),
              .dtype = shape.dtype};
    }
    if (layer > 0) return local(shape, buffers, layer);
    return {.data = inputs.query,
            .strides = token_major(shape.num_heads, shape.qk_head_dim),
            .dtype = shape.dtype};
  }

  HeadRows local(const StepShape& shape, const BufferSet& buffers, int layer) const override {
    const int heads = num_local_heads(shape);
    return {.data = buffers.at<std::byte>("q_next") + layer * query_bytes(shape, heads),
            .strides = token_major(heads, shape.qk_head_dim),
            .dtype = shape.dtype};
  }

  int num_local_heads(const StepShape& shape) const override {
    return gathers_next_ ? shape.heads_per_rank : shape.num_heads;
  }
  int num_input_heads(const StepShape& shape) const override {
    return gathers_input_ ? shape.heads_per_rank : shape.num_heads;
  }

 private:
  bool gathers(int layer) const { return layer == 0 ? gathers_input_ : gathers_next_; }

  static std::byte* gather_target(const StepShape& shape, const BufferSet& buffers, int layer) {
    const int heads = std::max(shape.num_heads, shape.padded_num_heads);
    return buffers.at<std::byte>("q_gathered") + layer * query_bytes(shape, heads);
  }

  bool gathers_input_;
  bool gathers_next_;
};

}  // namespace

std::unique_ptr<QueryStage> make_query_stage(QueryMode mode, bool keeps_all_heads) {
  if (mode == QueryMode::kReplicate) {
    return std::make_unique<GatheredQuery>(false, !keeps_all_heads);
  }
  return std::make_unique<GatheredQuery>(true, true);
}

}  // namespace dcp
