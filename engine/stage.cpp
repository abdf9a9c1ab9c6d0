#include "engine/stage.hpp"

namespace dcp {

namespace {

int num_out_heads(const StepShape& shape, bool keeps_all_heads) {
  return keeps_all_heads ? shape.num_heads : shape.heads_per_rank;
}

std::int64_t partial_rows(const StepShape& shape) {
  return shape.num_tokens * shape.padded_num_heads;
}

// Rows of combined outputs and LSEs, of one layer.
std::size_t combined_rows_of_layer(const StepShape& shape, bool keeps_all_heads) {
  return static_cast<std::size_t>(shape.num_tokens) *
         static_cast<std::size_t>(num_out_heads(shape, keeps_all_heads));
}

HeadRows combined_out(const StepShape& shape, std::byte* out, bool keeps_all_heads, int layer) {
  const std::size_t layer_bytes =
      combined_rows_of_layer(shape, keeps_all_heads) * shape.head_dim * size_bytes(shape.dtype);
  return {.data = out + layer * layer_bytes,
          .strides = token_major(num_out_heads(shape, keeps_all_heads), shape.head_dim),
          .dtype = shape.dtype};
}

std::size_t new_kv_layer_bytes(const StepShape& shape) {
  return static_cast<std::size_t>(shape.max_num_tokens) * shape.kv_row_dim *
         size_bytes(shape.dtype);
}

}  // namespace

const std::byte* new_kv_of_layer(const StageContext& context, int layer) {
  return context.inputs.new_kv + layer * new_kv_layer_bytes(context.shape);
}

const std::byte* all_new_kv_of_layer(const StageContext& context, int layer) {
  return context.inputs.all_new_kv + layer * new_kv_layer_bytes(context.shape);
}

std::byte* kv_cache_of_layer(const StageContext& context, int layer) {
  const StepInputs& inputs = context.inputs;
  const std::size_t layer_bytes = static_cast<std::size_t>(inputs.num_blocks) * inputs.block_size *
                                  context.shape.kv_row_dim * size_bytes(context.shape.kv_dtype);
  return inputs.kv_cache + layer * layer_bytes;
}

void plan_activations(const StepShape& shape, bool keeps_all_heads, BufferPlan& plan) {
  const std::int64_t layers = shape.layers;
  const std::int64_t rows = shape.num_tokens;
  const std::int64_t heads = keeps_all_heads ? shape.num_heads : shape.heads_per_rank;
  plan.add("partial_out", shape.dtype, {layers, rows, shape.padded_num_heads, shape.head_dim},
           Lifetime::kActivation);
  plan.add("partial_lse", shape.lse.dtype, {layers, rows, shape.padded_num_heads},
           Lifetime::kActivation);
  plan.add("out", shape.dtype, {layers, rows, heads, shape.head_dim}, Lifetime::kActivation);
  if (shape.return_lse) {
    plan.add("lse", DType::kFp32, {layers, rows, heads}, Lifetime::kActivation);
  }
}

HeadRows partial_out(const StepShape& shape, const BufferSet& buffers, int layer) {
  const std::size_t layer_bytes =
      static_cast<std::size_t>(partial_rows(shape)) * shape.head_dim * size_bytes(shape.dtype);
  return {.data = buffers.at<std::byte>("partial_out") + layer * layer_bytes,
          .strides = token_major(shape.padded_num_heads, shape.head_dim),
          .dtype = shape.dtype};
}

HeadRows partial_lse(const StepShape& shape, const BufferSet& buffers, int layer) {
  const std::size_t layer_bytes =
      static_cast<std::size_t>(partial_rows(shape)) * size_bytes(shape.lse.dtype);
  return {.data = buffers.at<std::byte>("partial_lse") + layer * layer_bytes,
          .strides = token_major(shape.padded_num_heads, 1),
          .dtype = shape.lse.dtype};
}

Combined combined_rows(const StepShape& shape, const BufferSet& buffers, bool keeps_all_heads,
                       int layer) {
  const std::size_t rows = combined_rows_of_layer(shape, keeps_all_heads);
  return {.out = combined_out(shape, buffers.at<std::byte>("out"), keeps_all_heads, layer),
          .lse = shape.return_lse ? buffers.at<float>("lse") + layer * rows : nullptr};
}

void plan_states(const StepShape& shape, bool keeps_all_heads, BufferPlan& plan) {
  const std::int64_t heads = keeps_all_heads ? shape.num_heads : shape.heads_per_rank;
  for (const std::string state : {"context", "new"}) {
    plan.add(state + "_out", shape.dtype, {shape.layers, shape.num_tokens, heads, shape.head_dim},
             Lifetime::kActivation);
    plan.add(state + "_lse", DType::kFp32, {shape.layers, shape.num_tokens, heads},
             Lifetime::kActivation);
  }
}

AttentionStates states(const StepShape& shape, const BufferSet& buffers, bool keeps_all_heads,
                       int layer) {
  const std::size_t rows = combined_rows_of_layer(shape, keeps_all_heads);
  const auto state = [&](std::string_view out, std::string_view lse) -> Combined {
    return {.out = combined_out(shape, buffers.at<std::byte>(out), keeps_all_heads, layer),
            .lse = buffers.at<float>(lse) + layer * rows};
  };
  return {.context = state("context_out", "context_lse"),
          .new_tokens = state("new_out", "new_lse")};
}

}  // namespace dcp
