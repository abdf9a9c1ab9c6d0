// One block per row.
#include <bit>

#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

constexpr int kThreads = 128;

__global__ void mask_rows(const __grid_constant__ EmptyShardMask::Params params) {
  const std::int64_t token = blockIdx.x;
  const bool is_empty = params.empty.has(token);
  for (int head = static_cast<int>(threadIdx.x); head < params.num_heads; head += kThreads) {
    const float lse = load_value(params.lse, params.lse.strides.offset(token, head));
    params.masked[token * params.num_heads + head] =
        std::bit_cast<float>(masked_lse_bits(lse, is_empty));
  }
}

}  // namespace

void launch(const EmptyShardMask::Params& params, const Launch& at) {
  if (params.num_tokens == 0 || params.num_heads == 0) return;
  mask_rows<<<static_cast<unsigned>(params.num_tokens), kThreads, 0, at.stream>>>(params);
}

}  // namespace dcp
