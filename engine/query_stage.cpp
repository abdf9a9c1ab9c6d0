#include "engine/query_stage.hpp"

#include <algorithm>

#include "strategies/direct_gathers.hpp"

namespace dcp {

namespace {

std::size_t query_bytes(const StepShape& shape, int num_heads) {
  return static_cast<std::size_t>(shape.num_tokens) * num_heads * shape.qk_head_dim *
         size_bytes(shape.dtype);
}

void plan_next_query(const StepShape& shape, int num_local_heads, BufferPlan& plan) {
  if (shape.layers == 1) return;
  plan.add("q_next", shape.dtype,
           {shape.layers, shape.num_tokens, num_local_heads, shape.qk_head_dim},
           Lifetime::kActivation);
}

// `gathers_input`: ranks start with h heads of layer 0, else with all H. `gathers_next`: later
// layers start with h heads. `target`: name of the buffer that is gathered into.
class GatheredQuery final : public QueryStage {
 public:
  GatheredQuery(bool gathers_input, bool gathers_next, std::string_view target = "q_gathered")
      : gathers_input_(gathers_input), gathers_next_(gathers_next), target_(target) {}

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    plan_next_query(shape, num_local_heads(shape), plan);
    if (gathers_input_ || (gathers_next_ && shape.layers > 1)) {
      // Kernels of fixed head count read padded_num_heads in the last token's row too.
      const int heads = std::max(shape.num_heads, shape.padded_num_heads);
      plan.add(target_, shape.dtype, {shape.layers, shape.num_tokens, heads, shape.qk_head_dim},
               Lifetime::kActivation);
    }
  }

  void enqueue(const StageContext& context, int layer) const override {
    if (!gathers(layer)) return;
    const StepShape& shape = context.shape;
    context.lane.collective(CollectiveKind::kAllGather,
                            {.send = own(shape, context.buffers, context.inputs, layer).data,
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
    return own(shape, buffers, inputs, layer);
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

  std::byte* gather_target(const StepShape& shape, const BufferSet& buffers, int layer) const {
    const int heads = std::max(shape.num_heads, shape.padded_num_heads);
    return buffers.at<std::byte>(target_) + layer * query_bytes(shape, heads);
  }

  bool gathers_input_;
  bool gathers_next_;
  std::string_view target_;
};

// Every rank stores its heads into one buffer of every rank; attention reads it there.
class DirectQuery final : public QueryStage {
 public:
  void plan(const StepShape& shape, BufferPlan& plan) const override {
    if (reuses_buffer(shape)) {
      plan_next_query(shape, num_local_heads(shape), plan);
    } else {
      collective_.plan(shape, plan);
    }
    plan_direct_query_gather(shape, plan);
  }

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    if (!reuses_buffer(shape)) return collective_.enqueue(context, layer);
    enqueue_direct_query_gather(context.lane, shape, context.buffers,
                                own(shape, context.buffers, context.inputs, layer).data);
  }

  ConstHeadRows gathered(const StepShape& shape, const BufferSet& buffers, const StepInputs& inputs,
                         int layer) const override {
    if (!reuses_buffer(shape)) return collective_.gathered(shape, buffers, inputs, layer);
    return {.data = buffers.at("q_gathered"),
            .strides = token_major(shape.num_heads, shape.qk_head_dim),
            .dtype = shape.dtype};
  }

  HeadRows local(const StepShape& shape, const BufferSet& buffers, int layer) const override {
    return collective_.local(shape, buffers, layer);
  }
  int num_local_heads(const StepShape& shape) const override { return shape.heads_per_rank; }
  int num_input_heads(const StepShape& shape) const override { return shape.heads_per_rank; }

  bool reuses_buffer(const StepShape& shape) const override {
    return shape.num_tokens <= shape.max_exchange_tokens;
  }

 private:
  GatheredQuery collective_{true, true, "q_collected"};
};

}  // namespace

ConstHeadRows QueryStage::own(const StepShape& shape, const BufferSet& buffers,
                              const StepInputs& inputs, int layer) const {
  if (layer > 0) return local(shape, buffers, layer);
  return {.data = inputs.query,
          .strides = token_major(num_input_heads(shape), shape.qk_head_dim),
          .dtype = shape.dtype};
}

std::unique_ptr<QueryStage> make_query_stage(QueryMode mode, bool keeps_all_heads, int world_size) {
  if (mode == QueryMode::kDirect) {
    if (world_size > 1) return std::make_unique<DirectQuery>();
    return std::make_unique<GatheredQuery>(false, false);
  }
  if (mode == QueryMode::kReplicate) {
    return std::make_unique<GatheredQuery>(false, !keeps_all_heads);
  }
  return std::make_unique<GatheredQuery>(true, true);
}

}  // namespace dcp
