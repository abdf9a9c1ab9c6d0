#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

__host__ __device__ CudaAttentionRows rows_of(const NewAttention::Params& p) {
  const HeadStrides lse_strides{
      .rank = 0, .token = p.num_heads, .head = 1, .element = 1, .heads_per_rank = p.num_heads};
  return {.query = p.query,
          .out = p.out,
          .lse = {.data = p.lse, .strides = lse_strides, .dtype = DType::kFp32},
          .batch = p.batch,
          .empty_row_mode = p.empty_row_mode,
          .num_tokens = p.num_tokens,
          .num_heads = p.num_heads,
          .first_head = p.first_head,
          .heads_per_kv_head = p.heads_per_kv_head,
          .qk_head_dim = p.head_dim,
          .v_head_dim = p.head_dim,
          .num_splits = 1,
          .softmax_scale = p.softmax_scale,
          .base = p.base};
}

template <class T>
__global__ void attend_new(const __grid_constant__ NewAttention::Params params, Fault* fault) {
  const std::int64_t values_at = std::int64_t{params.num_kv_heads} * params.head_dim;
  attend_row<T, T>(rows_of(params), params.new_kv, values_at,
                   [&](std::int32_t request, std::int64_t key, int kv_head) {
                     const std::int64_t row = params.first_rows[request] + key;
                     if (row >= params.num_new_rows) {
                       report(fault, FaultKind::kNewTokenPastEnd, request, key, row,
                              params.num_new_rows);
                       return std::int64_t{-1};
                     }
                     return row * 2 * values_at + std::int64_t{kv_head} * params.head_dim;
                   });
}

}  // namespace

void launch(const NewAttention::Params& params, const Launch& at) {
  if (params.num_tokens == 0) return;
  dispatch_dtype(params.query.dtype, [&]<class T>() {
    attend_new<T>
        <<<attention_grid(rows_of(params)), attention_block(), 0, at.stream>>>(params, at.fault);
  });
}

}  // namespace dcp
