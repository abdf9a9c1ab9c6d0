// A warp takes one to four rows. They are loaded before their weights are known.
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/lse_weights.hpp"

namespace dcp {

namespace {

// Eight lanes look after the lses of a row.
using LseTeam = LaneTeam<8>;

template <LseBase kBase>
struct RowWeights {
  LseSum total;
  float factor;  // of this rank

  __device__ RowWeights(const LseCorrect::Params& params, std::int64_t token, int head) {
    const std::int64_t num_rows = params.num_tokens * params.num_heads;
    const std::int64_t row = token * params.num_heads + head;
    const auto lse_of = [&](int rank) { return params.lses[rank * num_rows + row]; };
    const float own_lse = lse_of(params.rank);
    total = sum_lses<kBase, LseTeam>(params.world_size, lse_of);
    factor = rank_factor<kBase>(own_lse, total);
  }

  __device__ void store_lse(const LseCorrect::Params& params, std::int64_t token, int head) const {
    const int lse_head = head - params.first_lse_head;
    const bool is_kept = params.lse != nullptr && lse_head >= 0 && lse_head < params.num_lse_heads;
    if (!is_kept || LseTeam::lane() > 0) return;
    params.lse[token * params.num_lse_heads + lse_head] = combined_lse<kBase>(total);
  }
};

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

template <LseBase kBase, class T, int kRows>
__global__ void scale_vectors(const __grid_constant__ LseCorrect::Params params) {
  constexpr int kAhead = kVectorsAhead<kRows>;
  const std::int64_t token = blockIdx.x;
  const int first_head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y) * kRows;
  if (first_head >= params.num_heads) return;
  const int lane = WarpTeam::lane();
  const WarpRows<kRows> rows{params.head_dim / static_cast<int>(kVector / sizeof(T)),
                             min(kRows, params.num_heads - first_head)};
  const RowOffsets<kRows> from(params.out.strides, token, first_head);
  const auto load = [&](int vector) {
    const int row = rows.row_of(vector);
    return reinterpret_cast<const uint4*>(static_cast<const T*>(params.out.data) +
                                          from[row])[vector - row * rows.num_vectors];
  };
  uint4 ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int vector = i * kWarp + lane;
    ahead[i] = vector < rows.total() ? load(vector) : uint4{};
  }
  const int team_head = first_head + min(lane / LseTeam::size(), rows.count - 1);  // some repeat
  const RowWeights<kBase> weights(params, token, team_head);
  const RowOffsets<kRows> to(params.scaled.strides, token, first_head);
  const auto store = [&](int vector, const uint4& value) {
    const int row = rows.row_of(vector);
    const float row_factor = __shfl_sync(~0u, weights.factor, row * LseTeam::size() % kWarp);
    if (vector >= rows.total()) return;
    reinterpret_cast<uint4*>(static_cast<T*>(params.scaled.data) +
                             to[row])[vector - row * rows.num_vectors] =
        scaled<T>(value, row_factor);
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (i * kWarp < rows.total()) store(i * kWarp + lane, ahead[i]);
  }
  for (int begin = kAhead * kWarp; begin < rows.total(); begin += kWarp) {
    const int vector = begin + lane;
    store(vector, vector < rows.total() ? load(vector) : uint4{});
  }
  weights.store_lse(params, token, team_head);
}

// Any strides, alignment and pair of dtypes.
template <LseBase kBase>
__global__ void scale_elements(const __grid_constant__ LseCorrect::Params params) {
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (head >= params.num_heads) return;
  const RowWeights<kBase> weights(params, token, head);
  weights.store_lse(params, token, head);
  const float factor = weights.factor;
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
  const bool vectors = params.out.dtype == params.scaled.dtype &&
                       has_vector_rows(params.out, params.head_dim) &&
                       has_vector_rows(params.scaled, params.head_dim);
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    if (!vectors) {
      constexpr int kWarps = 4;
      const dim3 grid(static_cast<unsigned>(params.num_tokens),
                      blocks_for(params.num_heads, kWarps));
      scale_elements<kBase><<<grid, dim3(kWarp, kWarps), 0, at.stream>>>(params);
      return;
    }
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      const RowGrid rows = make_row_grid(params.num_tokens, params.num_heads);
      const auto kernel =
          rows.rows_per_warp == 1 ? scale_vectors<kBase, T, 1> : scale_vectors<kBase, T, 4>;
      kernel<<<rows.grid, rows.block, 0, at.stream>>>(params);
    });
  });
}

}  // namespace dcp
