#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

__host__ __device__ CudaAttentionRows rows_of(const GqaAttention::Params& p) {
  return {.query = p.query,
          .out = p.out,
          .lse = p.lse,
          .batch = p.batch,
          .empty_row_mode = p.empty_row_mode,
          .num_tokens = p.num_tokens,
          .num_heads = p.num_heads,
          .first_head = 0,
          .heads_per_kv_head = p.num_heads / p.num_kv_heads,
          .qk_head_dim = p.head_dim,
          .v_head_dim = p.head_dim,
          .num_splits = p.num_splits,
          .softmax_scale = p.softmax_scale,
          .base = p.base};
}

template <class T, class Kv>
__global__ void attend_gqa(const __grid_constant__ GqaAttention::Params params, Fault* fault) {
  const CudaPagedCache cache{params.block_table,        params.num_blocks,
                             params.batch.num_requests, params.block_table_stride,
                             params.block_size,         fault};
  const std::int64_t values_at = std::int64_t{params.num_kv_heads} * params.head_dim;
  attend_row<T, Kv>(
      rows_of(params), params.kv_cache, values_at,
      [&](std::int32_t request, std::int64_t key, int kv_head) {
        const std::int64_t row = cache.row(request, key);
        return row < 0 ? row : row * 2 * values_at + std::int64_t{kv_head} * params.head_dim;
      });
}

}  // namespace

void launch(const GqaAttention::Params& params, const Launch& at) {
  if (params.num_tokens == 0) return;
  dispatch_kv_dtype(params.query.dtype, params.kv_dtype, [&]<class T, class Kv>() {
    attend_gqa<T, Kv>
        <<<attention_grid(rows_of(params)), attention_block(), 0, at.stream>>>(params, at.fault);
  });
}

}  // namespace dcp
