// The words of a row, of up to eight ranks, are loaded before anything else happens, also of ranks
// that turn out to have no weight: their words are not used. A row is shared by several warps.
#include <algorithm>

#include "kernels/combine_row.hpp"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

constexpr int kGroup = 8;  // ranks whose words are in flight, and the group of sum_rank_rows

// A row of the result and the rows that it is made of, in words, and the lanes that share them.
template <class T>
struct CombinedRow {
  const T* recv;
  std::int64_t first_payload;  // of rank 0, in elements
  std::int64_t first_lse;
  std::int64_t part;  // elements from a rank's to the next one's
  std::uint32_t* out;
  int num_words;
  int lane;
  int num_lanes;

  __device__ const std::uint32_t* words(int rank) const {
    return reinterpret_cast<const std::uint32_t*>(recv + first_payload + rank * part);
  }
  __device__ float lse(int rank) const { return load_lse_lanes(recv + first_lse + rank * part); }
};

// Up to eight ranks: one group. Each lane has kWords words of the row, all of them in flight.
// Starting from -0, which adding anything forgets, gives the bits of sum_rank_rows.
template <LseBase kBase, class T, int kWords>
__device__ LseSum combine_group(const CombinedRow<T>& row, int world_size) {
  using RankTeam = LaneTeam<kGroup>;  // lane i looks after the lse of rank i
  constexpr int kElements = Word<T>::kElements;
  std::uint32_t words[kGroup][kWords];
#pragma unroll
  for (int rank = 0; rank < kGroup; ++rank) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int index = row.lane + w * row.num_lanes;
      words[rank][w] = rank < world_size && index < row.num_words ? row.words(rank)[index] : 0u;
    }
  }
  const int own_rank = RankTeam::lane();
  const float own_lse =
      own_rank < world_size ? row.lse(own_rank) : -std::numeric_limits<float>::infinity();
  const LseSum total = sum_lses<kBase, RankTeam>(kGroup, [&](int) { return own_lse; });
  const float own_factor = rank_factor<kBase>(own_lse, total);
  float sums[kWords][kElements];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) sums[w][i] = total.sum > 0.0f ? -0.0f : 0.0f;
  }
#pragma unroll
  for (int rank = 0; rank < kGroup; ++rank) {
    const float factor = __shfl_sync(~0u, own_factor, rank);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      float values[kElements];
      Word<T>::unpack(words[rank][w], values);
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        sums[w][i] += factor == 0.0f ? -0.0f : factor * values[i];
      }
    }
  }
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    const int index = row.lane + w * row.num_lanes;
    if (index < row.num_words) row.out[index] = Word<T>::pack(sums[w]);
  }
  return total;
}

// Any number of ranks, eight that have a factor at a time, as in sum_rank_rows.
template <LseBase kBase, class T>
__device__ LseSum combine_groups(const CombinedRow<T>& row, int world_size, float* factors) {
  constexpr int kElements = Word<T>::kElements;
  const LseSum total = rank_factors<kBase, WarpTeam>(
      world_size, [&](int rank) { return row.lse(rank); }, factors);
  for (int index = row.lane; index < row.num_words; index += row.num_lanes) {
    float sums[kElements] = {};
    float group[kElements] = {};
    int num_added = 0;
    for (int first = 0; first < world_size; first += kGroup) {
      std::uint32_t words[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const bool is_wanted = first + j < world_size && factors[first + j] != 0.0f;
        words[j] = is_wanted ? row.words(first + j)[index] : 0u;
      }
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const float factor = first + j < world_size ? factors[first + j] : 0.0f;
        if (factor == 0.0f) continue;
        float values[kElements];
        Word<T>::unpack(words[j], values);
        const bool starts_group = num_added++ % kGroup == 0;
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
          const float term = factor * values[i];
          if (starts_group) sums[i] += group[i];
          group[i] = starts_group ? term : group[i] + term;
        }
      }
    }
    if (num_added > kGroup) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) group[i] = sums[i] + group[i];
    }
    row.out[index] = Word<T>::pack(group);
  }
  return total;
}

// kWords words per lane; 0: more than eight ranks.
template <LseBase kBase, class T, int kWords>
__global__ void combine_words(const __grid_constant__ A2aCombine::Params params,
                              const __grid_constant__ PackedRows packed,
                              const __grid_constant__ int warps_per_row) {
  extern __shared__ float all_factors[];
  const auto warp = static_cast<int>(threadIdx.y);
  const bool is_alone = static_cast<int>(blockDim.y) == warps_per_row;  // one row in the block
  const int row_of_block = is_alone ? 0 : warp / warps_per_row;
  const int rows_per_block = is_alone ? 1 : static_cast<int>(blockDim.y) / warps_per_row;
  const std::int64_t token = token_of_block();
  const int head = static_cast<int>(blockIdx.x) * rows_per_block + row_of_block;
  if (head >= packed.heads_per_rank || token >= packed.num_tokens) return;
  const CombinedRow<T> row{
      .recv = static_cast<const T*>(params.recv),
      .first_payload = packed.payload_offset(0, token, head),
      .first_lse = packed.lse_offset(0, token, head),
      .part = packed.elements_per_peer(),
      .out = reinterpret_cast<std::uint32_t*>(static_cast<T*>(params.out.data) +
                                              params.out.strides.offset(token, head)),
      .num_words = packed.head_dim / Word<T>::kElements,
      .lane = (warp - row_of_block * warps_per_row) * kWarp + WarpTeam::lane(),
      .num_lanes = warps_per_row * kWarp};
  LseSum total;
  if constexpr (kWords > 0) {
    total = combine_group<kBase, T, kWords>(row, params.world_size);
  } else {
    total =
        combine_groups<kBase, T>(row, params.world_size, all_factors + warp * params.world_size);
  }
  if (params.lse == nullptr || row.lane > 0) return;
  params.lse[token * packed.heads_per_rank + head] = combined_lse<kBase>(total);
}

// Any strides and alignment.
template <LseBase kBase, class T>
__global__ void combine_elements(const __grid_constant__ A2aCombine::Params params,
                                 const __grid_constant__ PackedRows packed) {
  extern __shared__ float all_factors[];
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= packed.rows_per_peer()) return;
  const std::int64_t token = row / packed.heads_per_rank;
  const int head = static_cast<int>(row % packed.heads_per_rank);
  const auto* recv = static_cast<const T*>(params.recv);
  float* factors = all_factors + threadIdx.y * params.world_size;
  const auto lse_of = [&](int rank) {
    return load_lse_lanes(recv + packed.lse_offset(rank, token, head));
  };
  const auto row_of = [&](int rank) { return recv + packed.payload_offset(rank, token, head); };
  const LseSum total = rank_factors<kBase, WarpTeam>(params.world_size, lse_of, factors);
  sum_rank_rows<WarpTeam>(
      factors, params.world_size, params.head_dim, row_of,
      StridedRow<T>{static_cast<T*>(params.out.data) + params.out.strides.offset(token, head),
                    params.out.strides.element});
  if (params.lse != nullptr && WarpTeam::lane() == 0) params.lse[row] = combined_lse<kBase>(total);
}

bool has_word_rows(const A2aCombine::Params& params) {
  const auto element = static_cast<std::int64_t>(size_bytes(params.out.dtype));
  const HeadStrides& s = params.out.strides;
  const auto whole = [&](std::int64_t elements) { return elements * element % 4 == 0; };
  return s.element == 1 && is_aligned(params.recv, 4) && is_aligned(params.out.data, 4) &&
         whole(params.head_dim) && whole(s.rank) && whole(s.token) && whole(s.head);
}

// How the words of a row are shared out: over as many warps as it has words for where rows are few,
// else four words to a lane. A row of more words than that has more warps.
struct WordGrid {
  int words_per_lane;
  int warps_per_row;
  int rows_per_block;
};

WordGrid make_word_grid(const PackedRows& packed) {
  const int words = packed.head_dim * static_cast<int>(size_bytes(packed.dtype)) / 4;
  const bool few = packed.rows_per_peer() < 1024;
  const int words_per_lane = few ? 1 : 4;
  const int warps = static_cast<int>(blocks_for(words, kWarp * words_per_lane));
  return {words_per_lane, warps, few ? 1 : std::clamp(8 / warps, 1, packed.heads_per_rank)};
}

}  // namespace

void launch(const A2aCombine::Params& params, const Launch& at) {
  const PackedRows packed{.num_tokens = params.num_tokens,
                          .world_size = params.world_size,
                          .heads_per_rank = params.heads_per_rank,
                          .head_dim = params.head_dim,
                          .dtype = params.out.dtype,
                          .layout = params.layout};
  const std::int64_t rows = packed.rows_per_peer();
  if (rows == 0) return;
  const WordGrid grid = make_word_grid(packed);
  const bool words = has_word_rows(params);
  const int warps = words ? grid.warps_per_row * grid.rows_per_block : 4;
  const dim3 blocks =
      words ? RowGrid::token_grid(params.num_tokens,
                                  blocks_for(params.heads_per_rank, grid.rows_per_block))
            : dim3(blocks_for(rows, warps));
  const dim3 block(kWarp, static_cast<unsigned>(warps));
  const std::size_t shared = static_cast<std::size_t>(warps) * params.world_size * sizeof(float);
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      if (!words) {
        combine_elements<kBase, T><<<blocks, block, shared, at.stream>>>(params, packed);
        return;
      }
      const auto kernel = params.world_size > kGroup ? combine_words<kBase, T, 0>
                          : grid.words_per_lane == 1 ? combine_words<kBase, T, 1>
                                                     : combine_words<kBase, T, 4>;
      kernel<<<blocks, block, shared, at.stream>>>(params, packed, grid.warps_per_row);
    });
  });
}

}  // namespace dcp
