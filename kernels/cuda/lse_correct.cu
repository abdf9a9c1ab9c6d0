// One warp per row. The row is loaded before its weight is known.
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/lse_weights.hpp"

namespace dcp {

namespace {

// This rank's factor; lane 0 stores the lse.
template <LseBase kBase>
__device__ float factor_of_row(const LseCorrect::Params& params, std::int64_t token, int head) {
  const std::int64_t num_rows = params.num_tokens * params.num_heads;
  const std::int64_t row = token * params.num_heads + head;
  const auto lse_of = [&](int rank) { return params.lses[rank * num_rows + row]; };
  const LseSum total = sum_lses<kBase, WarpTeam>(params.world_size, lse_of);
  const int lse_head = head - params.first_lse_head;
  const bool keeps_lse = params.lse != nullptr && lse_head >= 0 && lse_head < params.num_lse_heads;
  if (keeps_lse && WarpTeam::lane() == 0) {
    params.lse[token * params.num_lse_heads + lse_head] = combined_lse<kBase>(total);
  }
  return rank_factor<kBase>(lse_of(params.rank), total);
}

template <class T>
__device__ uint4 scaled(const uint4& vector, float factor) {
  constexpr int kElements = kVector / sizeof(T);
  struct alignas(kVector) Elements {
    T at[kElements];
  };
  Elements elements = std::bit_cast<Elements>(vector);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    elements.at[i] = from_float<T>(factor == 0.0f ? 0.0f : factor * to_float(elements.at[i]));
  }
  return std::bit_cast<uint4>(elements);
}

constexpr int kAhead = 2;  // vectors of a row per lane that are loaded before the weight is known

template <LseBase kBase, class T>
__global__ void scale_vectors(const __grid_constant__ LseCorrect::Params params) {
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (head >= params.num_heads) return;
  const int num_vectors = params.head_dim / static_cast<int>(kVector / sizeof(T));
  const auto* from = reinterpret_cast<const uint4*>(static_cast<const T*>(params.out.data) +
                                                    params.out.strides.offset(token, head));
  auto* to = reinterpret_cast<uint4*>(static_cast<T*>(params.scaled.data) +
                                      params.scaled.strides.offset(token, head));
  uint4 ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int k = WarpTeam::lane() + i * kWarp;
    ahead[i] = k < num_vectors ? from[k] : uint4{};
  }
  const float factor = factor_of_row<kBase>(params, token, head);
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int k = WarpTeam::lane() + i * kWarp;
    if (k < num_vectors) to[k] = scaled<T>(ahead[i], factor);
  }
  for (int k = WarpTeam::lane() + kAhead * kWarp; k < num_vectors; k += kWarp) {
    to[k] = scaled<T>(from[k], factor);
  }
}

// Any strides, alignment and pair of dtypes.
template <LseBase kBase>
__global__ void scale_elements(const __grid_constant__ LseCorrect::Params params) {
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (head >= params.num_heads) return;
  const float factor = factor_of_row<kBase>(params, token, head);
  const HeadStrides& from = params.out.strides;
  const HeadStrides& to = params.scaled.strides;
  for (int i = WarpTeam::lane(); i < params.head_dim; i += kWarp) {
    const float scaled =
        factor == 0.0f
            ? 0.0f
            : factor * load_value(params.out, from.offset(token, head) + i * from.element);
    store_value(params.scaled, to.offset(token, head) + i * to.element, scaled);
  }
}

}  // namespace

void launch(const LseCorrect::Params& params, const Launch& at) {
  if (params.num_tokens == 0 || params.num_heads == 0) return;
  const int rows_per_block = params.num_tokens * params.num_heads < 2048 ? 1 : 8;
  const dim3 block(kWarp, rows_per_block);
  const dim3 grid(static_cast<unsigned>(params.num_tokens),
                  blocks_for(params.num_heads, rows_per_block));
  const bool vectors = params.out.dtype == params.scaled.dtype &&
                       has_vector_rows(params.out, params.head_dim) &&
                       has_vector_rows(params.scaled, params.head_dim);
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    if (!vectors) {
      scale_elements<kBase><<<grid, block, 0, at.stream>>>(params);
      return;
    }
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      scale_vectors<kBase, T><<<grid, block, 0, at.stream>>>(params);
    });
  });
}

}  // namespace dcp
