// One warp per row.
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/strided_row.hpp"

namespace dcp {

namespace {

template <class T>
__global__ void project_rows(const __grid_constant__ OutProj::Params params) {
  const std::int64_t row = global_warp();
  if (row >= params.num_tokens * params.num_heads) return;
  const std::int64_t token = row / params.num_heads;
  const int head = static_cast<int>(row % params.num_heads);
  const StridedRow<T> to{
      static_cast<T*>(params.next_query.data) + params.next_query.strides.offset(token, head),
      params.next_query.strides.element};
  if (params.zero != 0) {
    fill_row<WarpTeam>(to, params.qk_head_dim, 0.0f);
    return;
  }
  const StridedRow<const T> from{
      static_cast<const T*>(params.out.data) + params.out.strides.offset(token, head),
      params.out.strides.element};
  normalise_row<WarpTeam>(from, to,
                          {params.v_head_dim, params.qk_head_dim, std::int64_t{7} * params.layer});
}

}  // namespace

void launch(const OutProj::Params& params, const Launch& at) {
  constexpr int kThreads = 128;
  const std::int64_t rows = params.num_tokens * params.num_heads;
  if (rows == 0) return;
  dispatch_dtype(params.out.dtype, [&]<class T>() {
    project_rows<T><<<blocks_for(rows * kWarp, kThreads), kThreads, 0, at.stream>>>(params);
  });
}

}  // namespace dcp
