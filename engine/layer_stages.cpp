#include "engine/layer_stages.hpp"

#include "kernels/kv_append.hpp"
#include "kernels/out_proj.hpp"

namespace dcp {

namespace {

class KvAppendStage final : public Stage {
 public:
  void plan(const StepShape&, BufferPlan&) const override {}

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    const Lane& lane = context.lane;
    // A request that is cut between ubatches sees the keys that earlier ubatches append.
    if (lane.previous != nullptr && lane.dropped != LaneEdge::kAppend) {
      lane.rank.runtime.wait(lane.compute, lane.previous->appended);
    }
    lane.enqueue<KvAppend>({.new_kv = new_kv_of_layer(context, layer),
                            .kv_cache = kv_cache_of_layer(context, layer),
                            .slot_mapping = context.inputs.slot_mapping,
                            .num_tokens = shape.num_tokens,
                            .num_slots = context.inputs.num_blocks * context.inputs.block_size,
                            .dim = shape.kv_row_dim,
                            .dtype = shape.dtype,
                            .kv_dtype = shape.kv_dtype});
    lane.rank.runtime.record(lane.appended, lane.compute);
  }
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

// `is_context`: the partials are of the context alone, and the result one of two states that are
// merged later.
class CombineStage final : public Stage {
 public:
  CombineStage(const Strategy& strategy, bool is_context)
      : strategy_(strategy), is_context_(is_context) {}

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    plan_activations(shape, strategy_.keeps_all_heads(), plan);
    if (is_context_) plan_states(shape, strategy_.keeps_all_heads(), plan);
    strategy_.plan(combine_shape(shape), plan);
  }

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape shape = combine_shape(context.shape);
    const bool all_heads = strategy_.keeps_all_heads();
    strategy_.enqueue(context.lane, shape, context.buffers,
                      {.out = partial_out(shape, context.buffers, layer),
                       .lse = partial_lse(shape, context.buffers, layer),
                       .empty_ranks = context.inputs.empty_ranks},
                      is_context_ ? states(shape, context.buffers, all_heads, layer).context
                                  : combined_rows(shape, context.buffers, all_heads, layer));
  }

 private:
  // A merge needs the context's LSE, whether the step returns one or not.
  StepShape combine_shape(StepShape shape) const {
    shape.return_lse |= is_context_;
    return shape;
  }

  const Strategy& strategy_;
  bool is_context_;
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
      out = heads_from(out, shape.rank * shape.heads_per_rank);
    }
    if (context.inputs.zero_query) out.data = nullptr;  // it is not read, so it is no argument
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

std::unique_ptr<Stage> make_given_partials_stage() {
  return std::make_unique<GivenPartialsStage>();
}

std::unique_ptr<Stage> make_combine_stage(const Strategy& strategy) {
  return std::make_unique<CombineStage>(strategy, false);
}

std::unique_ptr<Stage> make_context_combine_stage(const Strategy& strategy) {
  return std::make_unique<CombineStage>(strategy, true);
}

std::unique_ptr<Stage> make_out_proj_stage(const Strategy& strategy, const QueryStage& query) {
  return std::make_unique<OutProjStage>(strategy, query);
}

}  // namespace dcp
