// What the row kernels share: vectors of 16 bytes where a view allows them, elements of any dtype,
// and the question which request a row belongs to, asked by a whole warp.
#pragma once

#include <cstdint>

#include "kernels/batch_metadata.hpp"
#include "kernels/cuda/team.cuh"
#include "kernels/head_rows.hpp"
#include "kernels/packed_row.hpp"

namespace dcp {

inline constexpr int kVector = 16;  // bytes

inline bool is_aligned(const void* data, std::int64_t size_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_bytes) == 0;
}

// Whether every row of the view is `dim` contiguous elements, and a whole number of aligned pieces.
inline bool has_whole_rows(const ConstHeadRows& rows, int dim, int piece_bytes) {
  const auto element = static_cast<std::int64_t>(size_bytes(rows.dtype));
  const HeadStrides& s = rows.strides;
  const auto whole = [&](std::int64_t elements) { return elements * element % piece_bytes == 0; };
  return s.element == 1 && is_aligned(rows.data, piece_bytes) && whole(dim) && whole(s.rank) &&
         whole(s.token) && whole(s.head);
}

inline bool has_vector_rows(const ConstHeadRows& rows, int dim) {
  return has_whole_rows(rows, dim, kVector);
}

// Element `offset` of a view of any dtype of 16 or 32 bits.
__device__ inline float load_value(const ConstHeadRows& rows, std::int64_t offset) {
  switch (rows.dtype) {
    case DType::kBf16:
      return to_float(static_cast<const Bf16*>(rows.data)[offset]);
    case DType::kFp16:
      return to_float(static_cast<const Fp16*>(rows.data)[offset]);
    default:
      return static_cast<const float*>(rows.data)[offset];
  }
}

__device__ inline void store_value(const HeadRows& rows, std::int64_t offset, float value) {
  switch (rows.dtype) {
    case DType::kBf16:
      static_cast<Bf16*>(rows.data)[offset] = from_float<Bf16>(value);
      break;
    case DType::kFp16:
      static_cast<Fp16*>(rows.data)[offset] = from_float<Fp16>(value);
      break;
    default:
      static_cast<float*>(rows.data)[offset] = value;
  }
}

// row_is_empty() by a warp: 32 boundaries a step, and with the last ones the lengths of all
// requests that it may be, so that loads wait for each other as seldom as can be.
__device__ inline bool row_is_empty_by_warp(const BatchMetadata& batch, std::int64_t row) {
  if (batch.query_start_loc == nullptr) return false;
  const std::int32_t causal_bound =
      batch.causal_bounds == nullptr ? 1 : batch.causal_bounds[row];  // 1: does not matter
  std::int32_t low = 0;  // the request is one of low .. high; num_requests: padding
  std::int32_t high = batch.num_requests;
  while (high - low >= kWarp) {
    const std::int32_t step = (high - low + kWarp - 1) / kWarp;
    const std::int32_t probe = low + WarpTeam::lane() * step;
    const bool is_before = probe < high && batch.query_start_loc[probe + 1] <= row;
    const int num_before = __popc(__ballot_sync(~0u, is_before));  // the first ones
    const std::int32_t end = low + num_before * step;
    if (num_before > 0) low = end - step + 1;
    high = end < high ? end : high;
  }
  const std::int32_t candidate = low + WarpTeam::lane();
  const bool is_before = candidate < high && batch.query_start_loc[candidate + 1] <= row;
  const std::int32_t length =
      candidate <= high && candidate < batch.num_requests ? batch.seq_lens[candidate] : 0;
  const int num_before = __popc(__ballot_sync(~0u, is_before));
  return __shfl_sync(~0u, length, num_before) == 0 || causal_bound == 0;
}

// Element offsets in a view of heads first_head, first_head + 1, ... of a token.
template <int kRows>
struct RowOffsets {
  std::int64_t at[kRows];

  __device__ RowOffsets(const HeadStrides& strides, std::int64_t token, int first_head) {
    int rank = 0;
    int head = first_head;
    if (first_head >= strides.heads_per_rank) {
      rank = first_head / strides.heads_per_rank;
      head = first_head % strides.heads_per_rank;
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      at[i] = rank * strides.rank + token * strides.token + head * strides.head;
      if (++head < strides.heads_per_rank) continue;
      head = 0;
      ++rank;
    }
  }
};

// Vectors of a row per lane that are loaded before anything else happens: rows of up to 64 vectors
// are loaded whole.
inline constexpr int kAhead = 2;

// Two floats, rounded, as the two halves of a word: the first is the low one.
template <class T>
__device__ std::uint32_t round_pair(float low, float high);
template <>
__device__ inline std::uint32_t round_pair<Bf16>(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
template <>
__device__ inline std::uint32_t round_pair<Fp16>(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

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
      return round_pair<T>(values[0], values[1]);
    }
  }
};

// Blocks of rows in the order in which the rows lie in memory: the heads of a token, then the next
// token. Few rows are spread over the GPU, one to a warp and block; of many, a warp takes four.
// Where few rows are worked on, every instruction before the first load costs time: the grid spares
// the division that a running number would need.
struct RowGrid {
  static constexpr unsigned kMaxY = 65535;

  int rows_per_warp;
  int warps;
  dim3 blocks;

  RowGrid(std::int64_t num_tokens, int num_heads, bool in_fours)
      : rows_per_warp(in_fours && num_tokens * num_heads >= 4096 ? 4 : 1),
        warps(num_tokens * num_heads >= 4096 ? 4 : 1),
        blocks(token_grid(num_tokens, blocks_for(num_heads, rows_per_warp * warps))) {}

  dim3 block() const { return dim3(kWarp, static_cast<unsigned>(warps)); }

  static dim3 token_grid(std::int64_t num_tokens, unsigned blocks_per_token) {
    const auto tokens = static_cast<unsigned>(num_tokens);
    return dim3(blocks_per_token, tokens < kMaxY ? tokens : kMaxY, (tokens - 1) / kMaxY + 1);
  }
};

// The token of this block; not below num_tokens: the block is past the end.
__device__ inline std::int64_t token_of_block() {
  return std::int64_t{blockIdx.z} * RowGrid::kMaxY + blockIdx.y;
}

__device__ inline int first_head_of_warp(int rows_per_warp) {
  return static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y) * rows_per_warp;
}

}  // namespace dcp
