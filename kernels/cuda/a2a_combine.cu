// The words of a row, of up to eight ranks, are loaded before anything else happens, also of ranks
// that turn out to have no weight: their words are not used. A row is shared by several warps.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/combine_row.hpp"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

#ifndef COMBINE_WORDS
#define COMBINE_WORDS 4
#endif
#ifndef COMBINE_LANES
#define COMBINE_LANES 256
#endif
constexpr int kGroup = 8;  // ranks whose words are in flight, and the group of sum_rank_rows

// Where rows come from and go to. Strides in bytes.
struct CombineRows {
  const char* recv;
  std::int64_t part;         // from a rank's part to the next one's
  std::int64_t payload_row;  // from a row's payload to the next one's
  std::int64_t first_lse;    // of a part
  std::int64_t lse_row;
  char* out;
  std::int64_t out_token;
  std::int64_t out_head;
  float* lse;  // [T, h], or null
  std::int64_t num_tokens;
  std::int32_t heads_per_rank;
  std::int32_t num_words;  // of a row
  std::int32_t world_size;
};

// A row of the result and the rows that it is made of, and the lanes that share them.
template <class Offset>
struct CombinedRow {
  const char* payload;  // of rank 0
  const char* first_lse;
  Offset part;
  std::uint32_t* out;
  int num_words;
  int lane;
  int num_lanes;

  __device__ CombinedRow(const CombineRows& rows, Offset token, int head)
      : part(static_cast<Offset>(rows.part)),
        num_words(rows.num_words),
        lane(static_cast<int>(threadIdx.x)),
        num_lanes(static_cast<int>(blockDim.x)) {
    const auto at = [](auto index, std::int64_t stride) {
      return static_cast<Offset>(index) * static_cast<Offset>(stride);
    };
    const Offset row = at(token, rows.heads_per_rank) + head;
    payload = rows.recv + at(row, rows.payload_row);
    first_lse = rows.recv + rows.first_lse + at(row, rows.lse_row);
    out = reinterpret_cast<std::uint32_t*>(rows.out + at(token, rows.out_token) +
                                           at(head, rows.out_head));
  }

  __device__ const std::uint32_t* words(int rank) const {
    return reinterpret_cast<const std::uint32_t*>(payload + static_cast<Offset>(rank) * part);
  }
  __device__ float lse(int rank) const {
    const char* at = first_lse + static_cast<Offset>(rank) * part;
    return std::bit_cast<float>(*reinterpret_cast<const std::uint32_t*>(at));
  }
};

// Up to eight ranks: one group. Each lane has kWords words of the row, all of them in flight.
// Starting from -0, which adding anything forgets, gives the bits of sum_rank_rows.
template <LseBase kBase, class T, int kWords, class Offset>
__device__ LseSum combine_group(const CombinedRow<Offset>& row, int world_size) {
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
__device__ LseSum combine_groups(const CombinedRow<std::int64_t>& row, int world_size,
                                 float* factors) {
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

// A word to a lane.
template <LseBase kBase, class T>
__global__ void combine_few(const __grid_constant__ CombineRows rows) {
  const auto token = static_cast<int>(blockIdx.y);
  const auto head = static_cast<int>(blockIdx.x);
  const CombinedRow<std::int32_t> row(rows, token, head);
  const LseSum total = combine_group<kBase, T, 1>(row, rows.world_size);
  if (rows.lse == nullptr || row.lane > 0) return;
  rows.lse[token * rows.heads_per_rank + head] = combined_lse<kBase>(total);
}

// kWords words to a lane; 0: more than eight ranks.
template <LseBase kBase, class T, int kWords>
__global__ void combine_many(const __grid_constant__ CombineRows rows) {
  extern __shared__ float all_factors[];
  const std::int64_t token = token_of_block();
  const int head = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  if (head >= rows.heads_per_rank || token >= rows.num_tokens) return;
  const CombinedRow<std::int64_t> row(rows, token, head);
  LseSum total;
  if constexpr (kWords > 0) {
    total = combine_group<kBase, T, kWords>(row, rows.world_size);
  } else {
    const unsigned warp = (threadIdx.y * blockDim.x + threadIdx.x) / kWarp;
    total = combine_groups<kBase, T>(row, rows.world_size, all_factors + warp * rows.world_size);
  }
  if (rows.lse == nullptr || row.lane > 0) return;
  rows.lse[token * rows.heads_per_rank + head] = combined_lse<kBase>(total);
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

CombineRows combine_rows(const A2aCombine::Params& params, const PackedRows& packed) {
  const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
  const auto bytes = [&](std::int64_t elements) { return elements * element; };
  return {.recv = static_cast<const char*>(params.recv),
          .part = bytes(packed.elements_per_peer()),
          .payload_row = bytes(packed.payload_offset(0, 0, 1)),
          .first_lse = bytes(packed.lse_offset(0, 0, 0)),
          .lse_row = bytes(packed.lse_offset(0, 0, 1) - packed.lse_offset(0, 0, 0)),
          .out = static_cast<char*>(params.out.data),
          .out_token = bytes(params.out.strides.token),
          .out_head = bytes(params.out.strides.head),
          .lse = params.lse,
          .num_tokens = params.num_tokens,
          .heads_per_rank = params.heads_per_rank,
          .num_words = static_cast<std::int32_t>(bytes(params.head_dim) / 4),
          .world_size = params.world_size};
}

bool has_word_rows(const A2aCombine::Params& params) {
  return is_aligned(params.recv, 4) && has_whole_rows(params.out, params.head_dim, 4) &&
         params.out.strides.heads_per_rank >= params.heads_per_rank;
}

// Whether a word to a lane leaves the GPU room, and every offset is short.
bool are_few(const CombineRows& rows) {
  constexpr std::int64_t kRows = 1024;
  constexpr std::int64_t kBytes = 1 << 30;
  const std::int64_t span =
      rows.num_tokens * std::abs(rows.out_token) + rows.heads_per_rank * std::abs(rows.out_head);
  return rows.num_words <= 1024 && rows.num_tokens * rows.heads_per_rank < kRows && span < kBytes &&
         rows.world_size * rows.part < kBytes;
}

template <LseBase kBase, class T>
void launch_words(const CombineRows& rows, cudaStream_t stream) {
  const auto lanes_for = [&](int words_per_lane) {
    return static_cast<int>(blocks_for(rows.num_words, kWarp * words_per_lane)) * kWarp;
  };
  if (rows.world_size <= kGroup && are_few(rows)) {
    const dim3 grid(static_cast<unsigned>(rows.heads_per_rank),
                    static_cast<unsigned>(rows.num_tokens));
    combine_few<kBase, T><<<grid, lanes_for(1), 0, stream>>>(rows);
    return;
  }
  const int lanes = lanes_for(COMBINE_WORDS);
  const int rows_per_block = std::clamp(COMBINE_LANES / lanes, 1, rows.heads_per_rank);
  const dim3 grid =
      RowGrid::token_grid(rows.num_tokens, blocks_for(rows.heads_per_rank, rows_per_block));
  const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(rows_per_block));
  if (rows.world_size <= kGroup) {
    combine_many<kBase, T, COMBINE_WORDS><<<grid, block, 0, stream>>>(rows);
    return;
  }
  const std::size_t shared = block.x * block.y / kWarp * rows.world_size * sizeof(float);
  combine_many<kBase, T, 0><<<grid, block, shared, stream>>>(rows);
}

}  // namespace

void launch(const A2aCombine::Params& params, const Launch& at) {
  const PackedRows packed{.num_tokens = params.num_tokens,
                          .world_size = params.world_size,
                          .heads_per_rank = params.heads_per_rank,
                          .head_dim = params.head_dim,
                          .dtype = params.out.dtype,
                          .layout = params.layout};
  const std::int64_t num_rows = packed.rows_per_peer();
  if (num_rows == 0) return;
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      if (has_word_rows(params)) {
        launch_words<kBase, T>(combine_rows(params, packed), at.stream);
        return;
      }
      const dim3 block(kWarp, 4);
      const std::size_t shared = block.y * params.world_size * sizeof(float);
      combine_elements<kBase, T>
          <<<blocks_for(num_rows, static_cast<int>(block.y)), block, shared, at.stream>>>(params,
                                                                                          packed);
    });
  });
}

}  // namespace dcp
