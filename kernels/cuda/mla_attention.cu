#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

__host__ __device__ CudaAttentionRows rows_of(const MlaAttention::Params& p) {
  return {.query = p.query,
          .out = p.out,
          .lse = p.lse,
          .batch = p.batch,
          .empty_row_mode = p.empty_row_mode,
          .num_tokens = p.num_tokens,
          .num_heads = p.num_heads,
          .first_head = 0,
          .heads_per_kv_head = p.num_heads,
          .qk_head_dim = p.qk_head_dim,
          .v_head_dim = p.v_head_dim,
          .num_splits = p.num_splits,
          .softmax_scale = p.softmax_scale,
          .base = p.base};
}

template <class T, class Kv>
__global__ void attend_mla(const __grid_constant__ MlaAttention::Params params, Fault* fault) {
  const CudaPagedCache cache{params.block_table,        params.num_blocks,
                             params.batch.num_requests, params.block_table_stride,
                             params.block_size,         fault};
  attend_row<T, Kv>(rows_of(params), params.kv_cache, 0,
                    [&](std::int32_t request, std::int64_t key, int) {
                      const std::int64_t row = cache.row(request, key);
                      return row < 0 ? row : row * params.qk_head_dim;
                    });
}

}  // namespace

void launch(const MlaAttention::Params& params, const Launch& at) {
  if (params.num_tokens == 0) return;
  dispatch_kv_dtype(params.query.dtype, params.kv_dtype, [&]<class T, class Kv>() {
    attend_mla<T, Kv>
        <<<attention_grid(rows_of(params)), attention_block(), 0, at.stream>>>(params, at.fault);
  });
}

}  // namespace dcp
