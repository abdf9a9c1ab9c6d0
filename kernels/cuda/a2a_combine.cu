// The words of a row, of all ranks, are loaded before the first is used; where rows are few, also
// before the weights are known. A row is shared by one to eight warps.
#include "kernels/combine_row.hpp"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

constexpr int kGroup = 8;  // ranks whose words are in flight, and the group of sum_rank_rows
constexpr int kWords = 2;  // words of a row per thread and pass

// The elements of a 4-byte word.
template <class T>
struct Word {
  static constexpr int kElements = 4 / sizeof(T);
  __device__ static void unpack(std::uint32_t word, float (&values)[kElements]) {
    if constexpr (kElements == 1) {
      values[0] = std::bit_cast<float>(word);
    } else {
      values[0] = to_float(T{static_cast<std::uint16_t>(word)});
      values[1] = to_float(T{static_cast<std::uint16_t>(word >> 16)});
    }
  }
  __device__ static std::uint32_t pack(const float (&values)[kElements]) {
    if constexpr (kElements == 1) {
      return std::bit_cast<std::uint32_t>(values[0]);
    } else {
      const std::uint32_t high = from_float<T>(values[1]).bits;
      return high << 16 | from_float<T>(values[0]).bits;
    }
  }
};

// Sums of sum_rank_rows for kWords words.
template <class T>
struct WordSums {
  static constexpr int kElements = Word<T>::kElements;
  float sums[kWords][kElements] = {};
  float group[kWords][kElements] = {};
  int num_added = 0;

  __device__ void add(const std::uint32_t (&words)[kWords], float factor) {
    const bool starts_group = num_added % kGroup == 0;
    ++num_added;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      float values[kElements];
      Word<T>::unpack(words[w], values);
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const float term = factor * values[i];
        if (starts_group) sums[w][i] += group[w][i];
        group[w][i] = starts_group ? term : group[w][i] + term;
      }
    }
  }

  __device__ std::uint32_t word(int w) const {
    float values[kElements];
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      values[i] = num_added > kGroup ? sums[w][i] + group[w][i] : group[w][i];
    }
    return Word<T>::pack(values);
  }
};

struct Grid {
  int warps_per_row;
  int rows_per_block;
  bool loads_ahead;  // payload before weights, also of ranks that turn out to have none
};

template <LseBase kBase, class T>
__global__ void combine_words(const __grid_constant__ A2aCombine::Params params,
                              const __grid_constant__ PackedRows packed,
                              const __grid_constant__ Grid grid) {
  extern __shared__ float all_factors[];
  const std::int64_t row =
      std::int64_t{blockIdx.x} * grid.rows_per_block + threadIdx.y / grid.warps_per_row;
  if (row >= packed.rows_per_peer()) return;
  const std::int64_t token = row / packed.heads_per_rank;
  const int head = static_cast<int>(row % packed.heads_per_rank);
  const int warp_of_row = static_cast<int>(threadIdx.y) % grid.warps_per_row;
  const int num_lanes = grid.warps_per_row * kWarp;
  const int lane = warp_of_row * kWarp + WarpTeam::lane();
  const int num_words = packed.head_dim / Word<T>::kElements;
  const auto* recv = static_cast<const T*>(params.recv);
  const auto words_of = [&](int rank) {
    return reinterpret_cast<const std::uint32_t*>(recv + packed.payload_offset(rank, token, head));
  };
  auto* out = reinterpret_cast<std::uint32_t*>(static_cast<T*>(params.out.data) +
                                               params.out.strides.offset(token, head));

  std::uint32_t words[kGroup][kWords];
  const auto load = [&](int first_rank, int first_word, const float* factors) {
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      const int rank = first_rank + j;
      const bool wanted = rank < params.world_size && (factors == nullptr || factors[rank] != 0.0f);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const int index = first_word + w * num_lanes;
        words[j][w] = wanted && index < num_words ? words_of(rank)[index] : 0u;
      }
    }
  };
  if (grid.loads_ahead) load(0, lane, nullptr);

  float* factors = all_factors + threadIdx.y * params.world_size;
  const auto lse_of = [&](int rank) {
    return load_lse_lanes(recv + packed.lse_offset(rank, token, head));
  };
  const LseSum total = rank_factors<kBase, WarpTeam>(params.world_size, lse_of, factors);
  if (params.lse != nullptr && lane == 0) params.lse[row] = combined_lse<kBase>(total);

  for (int first = lane; first < num_words; first += kWords * num_lanes) {
    WordSums<T> sums;
    for (int first_rank = 0; first_rank < params.world_size; first_rank += kGroup) {
      const bool is_loaded = grid.loads_ahead && first == lane && first_rank == 0;
      if (!is_loaded) load(first_rank, first, factors);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const int rank = first_rank + j;
        const float factor = rank < params.world_size ? factors[rank] : 0.0f;
        if (factor != 0.0f) sums.add(words[j], factor);
      }
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int index = first + w * num_lanes;
      if (index < num_words) out[index] = sums.word(w);
    }
  }
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

// Enough warps to fill a GPU, and no more than the row has words for.
Grid make_grid(const PackedRows& packed) {
  constexpr std::int64_t kWantedWarps = 132 * 8;
  const std::int64_t words =
      packed.head_dim * static_cast<std::int64_t>(size_bytes(packed.dtype)) / 4;
  const std::int64_t rows = packed.rows_per_peer();
  int warps_per_row = 1;
  while (warps_per_row < 8 && warps_per_row * kWarp < words &&
         rows * warps_per_row < kWantedWarps) {
    warps_per_row *= 2;
  }
  const bool few = rows * warps_per_row < kWantedWarps;
  const int warps_per_block = few ? warps_per_row : 8;
  return {warps_per_row, warps_per_block / warps_per_row, few};
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
  const Grid grid = make_grid(packed);
  const bool words = has_word_rows(params);
  const int warps = words ? grid.warps_per_row * grid.rows_per_block : 4;
  const unsigned blocks = blocks_for(rows, words ? grid.rows_per_block : warps);
  const dim3 block(kWarp, warps);
  const std::size_t shared = static_cast<std::size_t>(warps) * params.world_size * sizeof(float);
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      if (words) {
        combine_words<kBase, T><<<blocks, block, shared, at.stream>>>(params, packed, grid);
      } else {
        combine_elements<kBase, T><<<blocks, block, shared, at.stream>>>(params, packed);
      }
    });
  });
}

}  // namespace dcp
