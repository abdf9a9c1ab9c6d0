#include "engine/stage.hpp"

namespace dcp {

namespace {

int num_out_heads(const StepShape& shape, bool keeps_all_heads) {
  return keeps_all_heads ? shape.num_heads : shape.heads_per_rank;
}

std::int64_t partial_rows(const StepShape& shape) {
  return shape.num_tokens * shape.padded_num_heads;
}

}  // namespace

void plan_activations(const StepShape& shape, bool keeps_all_heads, BufferPlan& plan) {
  const auto layers = static_cast<std::size_t>(shape.layers);
  const auto rows = static_cast<std::size_t>(partial_rows(shape));
  const std::size_t out_rows = static_cast<std::size_t>(shape.num_tokens) *
                               static_cast<std::size_t>(num_out_heads(shape, keeps_all_heads));
  plan.add("partial_out", layers * rows * shape.head_dim * size_bytes(shape.dtype),
           Lifetime::kActivation);
  plan.add("partial_lse", layers * rows * size_bytes(shape.lse.dtype), Lifetime::kActivation);
  plan.add("out", layers * out_rows * shape.head_dim * size_bytes(shape.dtype),
           Lifetime::kActivation);
  if (shape.return_lse) {
    plan.add("lse", layers * out_rows * sizeof(float), Lifetime::kActivation);
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
  const int heads = num_out_heads(shape, keeps_all_heads);
  const std::size_t rows = static_cast<std::size_t>(shape.num_tokens) * heads;
  const std::size_t out_bytes = rows * shape.head_dim * size_bytes(shape.dtype);
  return {.out = {.data = buffers.at<std::byte>("out") + layer * out_bytes,
                  .strides = token_major(heads, shape.head_dim),
                  .dtype = shape.dtype},
          .lse = shape.return_lse ? buffers.at<float>("lse") + layer * rows : nullptr};
}

}  // namespace dcp
