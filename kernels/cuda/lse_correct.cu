// A warp takes one to four rows. They are loaded before their weights are known. The word that says
// which ranks a token is empty on is loaded beside the lses, those of empty ranks included: none of
// the loads waits for another.
#include <cstdlib>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/empty_ranks.hpp"
#include "kernels/lse_weights.hpp"

namespace dcp {

namespace {

// Eight lanes look after the lses of a row.
using LseTeam = LaneTeam<8>;

// The lses of a row: this rank's, and the one that the lane looks after first, are loaded at once.
struct RowLses {
  const float* of_row;
  std::int64_t stride;        // from rank to rank
  std::uint64_t empty_ranks;  // of the token
  float own;
  float first;

  __device__ RowLses(const LseCorrect::Params& params, std::int64_t token, int head)
      : of_row(params.lses + token * params.num_heads + head),
        stride(params.num_tokens * params.num_heads),
        empty_ranks(params.empty_ranks == nullptr ? 0 : params.empty_ranks[token]),
        own(at(params.rank)),
        first(LseTeam::lane() < params.world_size ? at(LseTeam::lane())
                                                  : -std::numeric_limits<float>::infinity()) {}

  __device__ float at(int rank) const { return of_row[rank * stride]; }
  __device__ float masked(float lse, int rank) const {
    return is_empty_on(empty_ranks, rank) ? -std::numeric_limits<float>::infinity() : lse;
  }
};

template <LseBase kBase>
struct RowWeights {
  LseSum total;
  float factor;  // of this rank

  __device__ RowWeights(const LseCorrect::Params& params, const RowLses& lses) {
    total = sum_lses<kBase, LseTeam>(params.world_size, [&](int rank) {
      return lses.masked(rank < LseTeam::size() ? lses.first : lses.at(rank), rank);
    });
    factor = rank_factor<kBase>(lses.masked(lses.own, params.rank), total);
  }

  __device__ void store_lse(const LseCorrect::Params& params, std::int64_t token, int head) const {
    const int lse_head = head - params.first_lse_head;
    const bool is_kept = params.lse != nullptr && lse_head >= 0 && lse_head < params.num_lse_heads;
    if (!is_kept || LseTeam::lane() > 0) return;
    params.lse[token * params.num_lse_heads + lse_head] = combined_lse<kBase>(total);
  }
};

template <class T>
__device__ std::uint32_t scaled(std::uint32_t word, float factor) {
  float values[Word<T>::kElements];
  Word<T>::unpack(word, values);
#pragma unroll
  for (float& value : values) value *= factor;
  return Word<T>::pack(values);
}

template <class T>
__device__ uint4 scaled(const uint4& v, float factor) {
  if (factor == 0.0f) return {};  // whatever the row holds
  return {scaled<T>(v.x, factor), scaled<T>(v.y, factor), scaled<T>(v.z, factor),
          scaled<T>(v.w, factor)};
}

template <LseBase kBase, class T, int kRows>
__global__ void scale_vectors(const __grid_constant__ LseCorrect::Params params) {
  wait_for_predecessor();
  const std::int64_t token = token_of_block();
  const int first_head = first_head_of_warp(kRows);
  const int num_rows = min(kRows, params.num_heads - first_head);
  if (num_rows <= 0 || token >= params.num_tokens) return;
  const int lane = WarpTeam::lane();
  const int team_head = first_head + min(lane / LseTeam::size(), num_rows - 1);  // some repeat
  const RowLses lses(params, token, team_head);
  const int num_vectors = params.head_dim / static_cast<int>(kVector / sizeof(T));
  const RowOffsets<kRows> from(params.out.strides, token, first_head);
  const auto row_of = [&](int row) {
    return reinterpret_cast<const uint4*>(static_cast<const T*>(params.out.data) + from.at[row]);
  };
  uint4 ahead[kRows][kAhead];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int k = i * kWarp + lane;
      ahead[row][i] = row < num_rows && k < num_vectors ? row_of(row)[k] : uint4{};
    }
  }
  const RowWeights<kBase> weights(params, lses);
  let_successor_come();
  const RowOffsets<kRows> to(params.scaled.strides, token, first_head);
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (row >= num_rows) break;
    const float factor = __shfl_sync(~0u, weights.factor, row * LseTeam::size());
    auto* out = reinterpret_cast<uint4*>(static_cast<T*>(params.scaled.data) + to.at[row]);
    if (lane < num_vectors) out[lane] = scaled<T>(ahead[row][0], factor);
    if (lane + kWarp < num_vectors) out[lane + kWarp] = scaled<T>(ahead[row][1], factor);
    for (int k = lane + kAhead * kWarp; k < num_vectors; k += kWarp) {
      out[k] = scaled<T>(row_of(row)[k], factor);
    }
  }
  weights.store_lse(params, token, team_head);
}

// What a row costs before its first load counts where few are worked on: a vector to a lane, short
// offsets in bytes.
struct FewRows {
  const float* lses;
  const std::uint64_t* empty_ranks;
  const char* out;
  char* scaled;
  float* lse;
  std::int32_t out_token;
  std::int32_t out_head;
  std::int32_t scaled_token;
  std::int32_t scaled_head;
  std::int32_t scaled_rank;
  std::int32_t heads_per_rank;  // of `scaled`
  std::int32_t rank;
  std::int32_t world_size;
  std::int32_t first_lse_head;
  std::int32_t num_lse_heads;
  std::int32_t num_vectors;
};

// The grid is (head of a rank, rank, token).
template <LseBase kBase, class T>
__global__ void scale_few(const __grid_constant__ FewRows rows) {
  const auto token = static_cast<int>(blockIdx.z);
  const int head = static_cast<int>(blockIdx.y * rows.heads_per_rank + blockIdx.x);
  const int num_heads = static_cast<int>(gridDim.y) * rows.heads_per_rank;
  const int k = static_cast<int>(threadIdx.x);
  const auto* from =
      reinterpret_cast<const uint4*>(rows.out + token * rows.out_token + head * rows.out_head);
  wait_for_predecessor();
  let_successor_come();
  const uint4 vector = k < rows.num_vectors ? from[k] : uint4{};
  const int team_lane = LseTeam::lane();
  const int stride = static_cast<int>(gridDim.z) * num_heads;
  const float* of_row = rows.lses + token * num_heads + head;
  const auto empty_ranks = static_cast<std::uint32_t>(rows.empty_ranks[token]);
  const float reported = team_lane < rows.world_size ? of_row[team_lane * stride]
                                                     : -std::numeric_limits<float>::infinity();
  const float own =
      is_empty_on(empty_ranks, team_lane) ? -std::numeric_limits<float>::infinity() : reported;
  const LseSum total = sum_lses<kBase, LseTeam>(LseTeam::size(), [&](int) { return own; });
  const float factor = __shfl_sync(~0u, rank_factor<kBase>(own, total), rows.rank, LseTeam::size());
  auto* to = reinterpret_cast<uint4*>(
      rows.scaled + static_cast<int>(blockIdx.y) * rows.scaled_rank + token * rows.scaled_token +
      static_cast<int>(blockIdx.x) * rows.scaled_head);
  if (k < rows.num_vectors) to[k] = scaled<T>(vector, factor);
  const int lse_head = head - rows.first_lse_head;
  const bool is_kept = rows.lse != nullptr && lse_head >= 0 && lse_head < rows.num_lse_heads;
  if (is_kept && k == 0) {
    rows.lse[token * rows.num_lse_heads + lse_head] = combined_lse<kBase>(total);
  }
}

// Whether the GPU holds all lanes at once, every offset is short, and rows are masked: a question
// less before the first load.
bool are_few(const LseCorrect::Params& params) {
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kBytes = 1 << 30;
  const auto element = static_cast<std::int64_t>(size_bytes(params.out.dtype));
  const auto span = [&](const HeadStrides& s) {
    return element * (params.num_tokens * std::abs(s.token) + params.num_heads * std::abs(s.head) +
                      params.world_size * std::abs(s.rank));
  };
  return params.empty_ranks != nullptr && params.num_tokens * params.num_heads < kRows &&
         span(params.out.strides) < kBytes && span(params.scaled.strides) < kBytes &&
         params.world_size <= LseTeam::size() && params.head_dim * element <= 1024 * kVector &&
         params.out.strides.heads_per_rank >= params.num_heads &&
         params.num_heads % params.scaled.strides.heads_per_rank == 0;
}

template <LseBase kBase, class T>
void launch_few(const LseCorrect::Params& params, cudaStream_t stream) {
  const auto bytes = [](std::int64_t elements) {
    return static_cast<std::int32_t>(elements * static_cast<std::int64_t>(sizeof(T)));
  };
  const HeadStrides& from = params.out.strides;
  const HeadStrides& to = params.scaled.strides;
  const FewRows rows{.lses = params.lses,
                     .empty_ranks = params.empty_ranks,
                     .out = static_cast<const char*>(params.out.data),
                     .scaled = static_cast<char*>(params.scaled.data),
                     .lse = params.lse,
                     .out_token = bytes(from.token),
                     .out_head = bytes(from.head),
                     .scaled_token = bytes(to.token),
                     .scaled_head = bytes(to.head),
                     .scaled_rank = bytes(to.rank),
                     .heads_per_rank = to.heads_per_rank,
                     .rank = params.rank,
                     .world_size = params.world_size,
                     .first_lse_head = params.first_lse_head,
                     .num_lse_heads = params.num_lse_heads,
                     .num_vectors = bytes(params.head_dim) / kVector};
  const dim3 grid(static_cast<unsigned>(to.heads_per_rank),
                  static_cast<unsigned>(params.num_heads / to.heads_per_rank),
                  static_cast<unsigned>(params.num_tokens));
  launch_early(scale_few<kBase, T>, grid, blocks_for(rows.num_vectors, kWarp) * kWarp, 0, stream,
               rows);
}

// Any strides, alignment and pair of dtypes.
template <LseBase kBase>
__global__ void scale_elements(const __grid_constant__ LseCorrect::Params params) {
  wait_for_predecessor();
  const std::int64_t token = token_of_block();
  const int head = first_head_of_warp(1);
  if (head >= params.num_heads || token >= params.num_tokens) return;
  const RowWeights<kBase> weights(params, RowLses(params, token, head));
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
  const RowGrid grid(params.num_tokens, params.num_heads, vectors);
  const auto start = [&](auto* kernel) {
    launch_early(kernel, grid.blocks, grid.block(), 0, at.stream, params);
  };
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    if (!vectors) return start(scale_elements<kBase>);
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      if (are_few(params)) return launch_few<kBase, T>(params, at.stream);
      start(grid.rows_per_warp == 1 ? scale_vectors<kBase, T, 1> : scale_vectors<kBase, T, 4>);
    });
  });
}

}  // namespace dcp
