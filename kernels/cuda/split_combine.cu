// One warp per row.
#include "kernels/combine_row.hpp"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

constexpr int kWarps = 4;

template <LseBase kBase, class T>
__global__ void combine_splits(const __grid_constant__ SplitCombine::Params params) {
  extern __shared__ float all_factors[];
  let_successor_come();
  const std::int64_t num_rows = params.num_tokens * params.num_heads;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (row >= num_rows) return;
  const std::int64_t token = row / params.num_heads;
  const int head = static_cast<int>(row % params.num_heads);
  const RowResult result{params.out, params.lse, token, head};
  if (row_is_empty_by_warp(params.batch, token)) {
    const bool is_padding = request_of_row(params.batch, token) >= params.batch.num_requests;
    fill_empty_row(static_cast<EmptyRowMode>(*params.empty_row_mode), result, params.head_dim,
                   is_padding);
    return;
  }
  const auto lse_of = [&](int split) { return params.split_lse[split * num_rows + row]; };
  bool has_nan = false;
  for (int split = WarpTeam::lane(); split < params.num_splits; split += kWarp) {
    has_nan = has_nan || isnan(lse_of(split));
  }
  const StridedRow<T> out{static_cast<T*>(params.out.data) + params.out.strides.offset(token, head),
                          params.out.strides.element};
  if (__any_sync(~0u, has_nan)) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    fill_row<WarpTeam>(out, params.head_dim, kNan);
    result.store_lse(kNan);
    return;
  }
  float* factors = all_factors + threadIdx.y * params.num_splits;
  const LseSum total = rank_factors<kBase, WarpTeam>(params.num_splits, lse_of, factors);
  sum_rank_rows<WarpTeam>(
      factors, params.num_splits, params.head_dim,
      [&](int split) { return params.split_out + (split * num_rows + row) * params.head_dim; },
      out);
  result.store_lse(combined_lse<kBase>(total));
}

}  // namespace

void launch(const SplitCombine::Params& params, const Launch& at) {
  const std::int64_t rows = params.num_tokens * params.num_heads;
  if (rows == 0) return;
  const std::size_t shared = kWarps * static_cast<std::size_t>(params.num_splits) * sizeof(float);
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      combine_splits<kBase, T>
          <<<blocks_for(rows, kWarps), dim3(kWarp, kWarps), shared, at.stream>>>(params);
    });
  });
}

}  // namespace dcp
