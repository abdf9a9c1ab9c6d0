#include "engine/attention_stages.hpp"

#include "kernels/gqa_attention.hpp"
#include "kernels/merge_states.hpp"
#include "kernels/mla_attention.hpp"
#include "kernels/new_attention.hpp"
#include "kernels/split_combine.hpp"

namespace dcp {

namespace {

// What attention writes, and what it leaves in empty rows: its partial, or the states of its
// splits.
struct AttentionTarget {
  HeadRows out;
  HeadRows lse;
  const std::int32_t* empty_row_mode;
};

class PartialAttentionStage : public Stage {
 public:
  explicit PartialAttentionStage(const QueryStage& query) : query_(query) {}

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    if (shape.num_splits == 1) return;
    plan.add("split_out", DType::kFp32,
             {shape.num_splits, shape.num_tokens, shape.num_heads, shape.head_dim},
             Lifetime::kWorkspace);
    plan.add("split_lse", DType::kFp32, {shape.num_splits, shape.num_tokens, shape.num_heads},
             Lifetime::kWorkspace);
  }

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    const HeadRows out = partial_out(shape, context.buffers, layer);
    const HeadRows lse = partial_lse(shape, context.buffers, layer);
    if (shape.num_splits == 1) {
      attend(context, layer, {out, lse, context.inputs.empty_row_mode});
      return;
    }
    auto* split_out = context.buffers.at<float>("split_out");
    auto* split_lse = context.buffers.at<float>("split_lse");
    attend(context, layer,
           {.out = {split_out, token_major(shape.num_heads, shape.head_dim), DType::kFp32},
            .lse = {split_lse, token_major(shape.num_heads, 1), DType::kFp32},
            .empty_row_mode = nullptr});
    context.lane.enqueue<SplitCombine>({.split_out = split_out,
                                        .split_lse = split_lse,
                                        .out = out,
                                        .lse = lse,
                                        .batch = context.inputs.batch,
                                        .empty_row_mode = context.inputs.empty_row_mode,
                                        .num_tokens = shape.num_tokens,
                                        .num_heads = shape.num_heads,
                                        .head_dim = shape.head_dim,
                                        .num_splits = shape.num_splits,
                                        .base = shape.lse.base});
  }

 protected:
  virtual void attend(const StageContext& context, int layer,
                      const AttentionTarget& target) const = 0;

  const QueryStage& query_;
};

class MlaAttentionStage final : public PartialAttentionStage {
 public:
  using PartialAttentionStage::PartialAttentionStage;

 private:
  void attend(const StageContext& context, int layer,
              const AttentionTarget& target) const override {
    const StepShape& shape = context.shape;
    const StepInputs& inputs = context.inputs;
    context.lane.enqueue<MlaAttention>(
        {.query = query_.gathered(shape, context.buffers, inputs, layer),
         .kv_cache = kv_cache_of_layer(context, layer),
         .kv_dtype = shape.kv_dtype,
         .block_table = inputs.block_table,
         .batch = inputs.batch,
         .out = target.out,
         .lse = target.lse,
         .empty_row_mode = target.empty_row_mode,
         .num_tokens = shape.num_tokens,
         .num_blocks = inputs.num_blocks,
         .block_table_stride = inputs.block_table_stride,
         .block_size = inputs.block_size,
         .num_heads = shape.num_heads,
         .qk_head_dim = shape.qk_head_dim,
         .v_head_dim = shape.head_dim,
         .softmax_scale = inputs.softmax_scale,
         .base = shape.lse.base,
         .num_splits = shape.num_splits});
  }
};

class GqaAttentionStage final : public PartialAttentionStage {
 public:
  using PartialAttentionStage::PartialAttentionStage;

 private:
  void attend(const StageContext& context, int layer,
              const AttentionTarget& target) const override {
    const StepShape& shape = context.shape;
    const StepInputs& inputs = context.inputs;
    context.lane.enqueue<GqaAttention>(
        {.query = query_.gathered(shape, context.buffers, inputs, layer),
         .kv_cache = kv_cache_of_layer(context, layer),
         .kv_dtype = shape.kv_dtype,
         .block_table = inputs.block_table,
         .batch = inputs.batch,
         .out = target.out,
         .lse = target.lse,
         .empty_row_mode = target.empty_row_mode,
         .num_tokens = shape.num_tokens,
         .num_blocks = inputs.num_blocks,
         .block_table_stride = inputs.block_table_stride,
         .block_size = inputs.block_size,
         .num_heads = shape.num_heads,
         .num_kv_heads = shape.num_kv_heads,
         .head_dim = shape.head_dim,
         .softmax_scale = inputs.softmax_scale,
         .base = shape.lse.base,
         .num_splits = shape.num_splits});
  }
};

class NewAttentionStage final : public Stage {
 public:
  NewAttentionStage(const QueryStage& query, bool keeps_all_heads)
      : query_(query), keeps_all_heads_(keeps_all_heads) {}

  void plan(const StepShape&, BufferPlan&) const override {}

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    const StepInputs& inputs = context.inputs;
    const int first_head = keeps_all_heads_ ? 0 : shape.rank * shape.heads_per_rank;
    const Combined state = states(shape, context.buffers, keeps_all_heads_, layer).new_tokens;
    context.lane.enqueue<NewAttention>(
        {.query = heads_from(query_.gathered(shape, context.buffers, inputs, layer), first_head),
         .new_kv = all_new_kv_of_layer(context, layer),
         .first_rows = inputs.new_first_rows,
         .batch = inputs.new_batch,
         .out = state.out,
         .lse = state.lse,
         .empty_row_mode = inputs.empty_row_mode,
         .num_tokens = shape.num_tokens,
         .num_new_rows = shape.max_num_tokens,
         .num_heads = keeps_all_heads_ ? shape.num_heads : shape.heads_per_rank,
         .first_head = first_head,
         .heads_per_kv_head = shape.num_heads / shape.num_kv_heads,
         .num_kv_heads = shape.num_kv_heads,
         .head_dim = shape.head_dim,
         .softmax_scale = inputs.softmax_scale,
         .base = shape.lse.base});
  }

 private:
  const QueryStage& query_;
  bool keeps_all_heads_;
};

class MergeStage final : public Stage {
 public:
  explicit MergeStage(bool keeps_all_heads) : keeps_all_heads_(keeps_all_heads) {}

  void plan(const StepShape&, BufferPlan&) const override {}

  void enqueue(const StageContext& context, int layer) const override {
    const StepShape& shape = context.shape;
    const AttentionStates from = states(shape, context.buffers, keeps_all_heads_, layer);
    const Combined to = combined_rows(shape, context.buffers, keeps_all_heads_, layer);
    context.lane.enqueue<MergeStates>(
        {.context_out = from.context.out.data,
         .context_lse = from.context.lse,
         .new_out = from.new_tokens.out.data,
         .new_lse = from.new_tokens.lse,
         .out = to.out,
         .lse = to.lse,
         .batch = context.inputs.new_batch,
         .num_tokens = shape.num_tokens,
         .num_heads = keeps_all_heads_ ? shape.num_heads : shape.heads_per_rank,
         .head_dim = shape.head_dim,
         .base = shape.lse.base});
  }

 private:
  bool keeps_all_heads_;
};

}  // namespace

std::unique_ptr<Stage> make_attention_stage(Attention attention, const QueryStage& query) {
  if (attention == Attention::kGqa) return std::make_unique<GqaAttentionStage>(query);
  return std::make_unique<MlaAttentionStage>(query);
}

std::unique_ptr<Stage> make_new_attention_stage(const QueryStage& query, bool keeps_all_heads) {
  return std::make_unique<NewAttentionStage>(query, keeps_all_heads);
}

std::unique_ptr<Stage> make_merge_stage(bool keeps_all_heads) {
  return std::make_unique<MergeStage>(keeps_all_heads);
}

}  // namespace dcp
