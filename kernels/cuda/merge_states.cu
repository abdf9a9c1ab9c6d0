// One warp per row.
#include "kernels/combine_row.hpp"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

constexpr int kWarps = 4;

template <LseBase kBase, class T>
__global__ void merge_rows(const __grid_constant__ MergeStates::Params params) {
  __shared__ float all_factors[kWarps][2];
  let_successor_come();
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (row >= params.num_tokens * params.num_heads) return;
  const std::int64_t token = row / params.num_heads;
  const int head = static_cast<int>(row % params.num_heads);
  const bool no_new_token = row_is_empty_by_warp(params.batch, token);
  const auto* context = static_cast<const T*>(params.context_out) + row * params.head_dim;
  const auto* fresh = static_cast<const T*>(params.new_out) + row * params.head_dim;
  const auto lse_of = [&](int state) {
    if (state == 0) return params.context_lse[row];
    return no_new_token ? -std::numeric_limits<float>::infinity() : params.new_lse[row];
  };
  float* factors = all_factors[threadIdx.y];
  const LseSum total = rank_factors<kBase, WarpTeam>(2, lse_of, factors);
  sum_rank_rows<WarpTeam>(
      factors, 2, params.head_dim, [&](int state) { return state == 0 ? context : fresh; },
      StridedRow<T>{static_cast<T*>(params.out.data) + params.out.strides.offset(token, head),
                    params.out.strides.element});
  if (params.lse != nullptr && WarpTeam::lane() == 0) params.lse[row] = combined_lse<kBase>(total);
}

}  // namespace

void launch(const MergeStates::Params& params, const Launch& at) {
  const std::int64_t rows = params.num_tokens * params.num_heads;
  if (rows == 0) return;
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      merge_rows<kBase, T><<<blocks_for(rows, kWarps), dim3(kWarp, kWarps), 0, at.stream>>>(params);
    });
  });
}

}  // namespace dcp
