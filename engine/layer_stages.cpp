#include "engine/layer_stages.hpp"

#include "kernels/kv_append.hpp"
#include "kernels/mla_attention.hpp"
#include "kernels/out_proj.hpp"

namespace dcp {

namespace {

std::byte* kv_cache_of_layer(const StageContext& context, int layer) {
  const StepInputs& inputs = context.inputs;
  const std::size_t layer_bytes = static_cast<std::size_t>(inputs.num_blocks) * inputs.block_size *
                                  context.shape.qk_head_dim * size_bytes(context.shape.dtype);
  return inputs.kv_cache + layer * layer_bytes;
}

class KvAppendStage final : public Stage {
 public:
  void plan(const StepShape&, BufferPlan&) const override {}

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    const Lane& lane = context.lane;
    const std::size_t layer_bytes = static_cast<std::size_t>(shape.max_num_tokens) *
                                    shape.qk_head_dim * size_bytes(shape.dtype);
    // A request that is cut between ubatches sees the keys that earlier ubatches append.
    if (lane.previous != nullptr) lane.rank.runtime.wait(lane.compute, lane.previous->appended);
    lane.enqueue<KvAppend>({.new_kv = context.inputs.new_kv + layer * layer_bytes,
                            .kv_cache = kv_cache_of_layer(context, layer),
                            .slot_mapping = context.inputs.slot_mapping,
                            .num_tokens = shape.num_tokens,
                            .num_slots = context.inputs.num_blocks * context.inputs.block_size,
                            .dim = shape.qk_head_dim,
                            .dtype = shape.dtype});
    lane.rank.runtime.record(lane.appended, lane.compute);
  }
};

class MlaAttentionStage final : public Stage {
 public:
  explicit MlaAttentionStage(const QueryStage& query) : query_(query) {}

  void plan(const StepShape&, BufferPlan&) const override {}

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    const StepInputs& inputs = context.inputs;
    context.lane.enqueue<MlaAttention>(
        {.query = query_.gathered(shape, context.buffers, inputs, layer),
         .kv_cache = kv_cache_of_layer(context, layer),
         .block_table = inputs.block_table,
         .batch = inputs.batch,
         .out = partial_out(shape, context.buffers, layer),
         .lse = partial_lse(shape, context.buffers, layer),
         .empty_row_mode = inputs.empty_row_mode,
         .num_tokens = shape.num_tokens,
         .num_blocks = inputs.num_blocks,
         .block_table_stride = inputs.block_table_stride,
         .block_size = inputs.block_size,
         .num_heads = shape.num_heads,
         .qk_head_dim = shape.qk_head_dim,
         .v_head_dim = shape.head_dim,
         .softmax_scale = inputs.softmax_scale,
         .base = shape.lse.base});
  }

 private:
  const QueryStage& query_;
};

class GivenPartialsStage final : public Stage {
 public:
  void plan(const StepShape&, BufferPlan&) const override {}

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    const std::size_t rows = static_cast<std::size_t>(shape.num_tokens) *
                             static_cast<std::size_t>(shape.padded_num_heads);
    Runtime& runtime = context.lane.rank.runtime;
    runtime.copy(context.lane.compute, partial_out(shape, context.buffers, layer).data,
                 context.inputs.given_out, rows * shape.head_dim * size_bytes(shape.dtype));
    runtime.copy(context.lane.compute, partial_lse(shape, context.buffers, layer).data,
                 context.inputs.given_lse, rows * size_bytes(shape.lse.dtype));
  }
};

class CombineStage final : public Stage {
 public:
  explicit CombineStage(const Strategy& strategy) : strategy_(strategy) {}

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    plan_activations(shape, strategy_.keeps_all_heads(), plan);
    strategy_.plan(shape, plan);
  }

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    strategy_.enqueue(context.lane, shape, context.buffers,
                      {.out = partial_out(shape, context.buffers, layer),
                       .lse = partial_lse(shape, context.buffers, layer),
                       .batch = context.inputs.batch},
                      combined_rows(shape, context.buffers, strategy_.keeps_all_heads(), layer));
  }

 private:
  const Strategy& strategy_;
};

class OutProjStage final : public Stage {
 public:
  OutProjStage(const Strategy& strategy, const QueryStage& query)
      : strategy_(strategy), query_(query) {}

  void plan(const StepShape&, BufferPlan&) const override {}

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    if (layer + 1 == shape.layers) return;
    const bool all_heads = strategy_.keeps_all_heads();
    ConstHeadRows out = combined_rows(shape, context.buffers, all_heads, layer).out;
    const int num_heads = query_.num_local_heads(shape);
    if (all_heads && num_heads != shape.num_heads) {
      const std::int64_t first = std::int64_t{shape.rank} * shape.heads_per_rank;
      out.data = static_cast<const std::byte*>(out.data) +
                 first * shape.head_dim * static_cast<std::int64_t>(size_bytes(shape.dtype));
    }
    context.lane.enqueue<OutProj>({.out = out,
                                   .next_query = query_.local(shape, context.buffers, layer + 1),
                                   .num_tokens = shape.num_tokens,
                                   .num_heads = num_heads,
                                   .v_head_dim = shape.head_dim,
                                   .qk_head_dim = shape.qk_head_dim,
                                   .layer = layer,
                                   .zero = context.inputs.zero_query ? 1 : 0});
  }

 private:
  const Strategy& strategy_;
  const QueryStage& query_;
};

}  // namespace

std::unique_ptr<Stage> make_kv_append_stage() { return std::make_unique<KvAppendStage>(); }

std::unique_ptr<Stage> make_mla_attention_stage(const QueryStage& query) {
  return std::make_unique<MlaAttentionStage>(query);
}

std::unique_ptr<Stage> make_given_partials_stage() {
  return std::make_unique<GivenPartialsStage>();
}

std::unique_ptr<Stage> make_combine_stage(const Strategy& strategy) {
  return std::make_unique<CombineStage>(strategy);
}

std::unique_ptr<Stage> make_out_proj_stage(const Strategy& strategy, const QueryStage& query) {
  return std::make_unique<OutProjStage>(strategy, query);
}

}  // namespace dcp
