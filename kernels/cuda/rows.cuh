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

// Whether every row of the view is `dim` contiguous elements, a whole number of aligned vectors.
inline bool has_vector_rows(const ConstHeadRows& rows, int dim) {
  const auto element = static_cast<std::int64_t>(size_bytes(rows.dtype));
  const HeadStrides& s = rows.strides;
  const auto whole = [&](std::int64_t elements) { return elements * element % kVector == 0; };
  return s.element == 1 && is_aligned(rows.data, kVector) && whole(dim) && whole(s.rank) &&
         whole(s.token) && whole(s.head);
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

// The rows that a warp works on together: heads first_head .. first_head + count - 1 of a token,
// their vectors numbered through.
template <int kRows>
struct WarpRows {
  int num_vectors;  // of one row
  int count;        // rows, at most kRows

  __device__ int total() const { return count * num_vectors; }
  __device__ int row_of(int vector) const {
    int row = 0;
#pragma unroll
    for (int i = 1; i < kRows; ++i) row += vector >= i * num_vectors;
    return row;
  }
};

// Element offsets of those rows in a view.
template <int kRows>
struct RowOffsets {
  std::int64_t at[kRows];

  __device__ RowOffsets(const HeadStrides& strides, std::int64_t token, int first_head) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) at[i] = strides.offset(token, first_head + i);
  }
  __device__ std::int64_t operator[](int row) const {
    std::int64_t offset = at[0];
#pragma unroll
    for (int i = 1; i < kRows; ++i) offset = row == i ? at[i] : offset;
    return offset;
  }
};

// Vectors per lane that are loaded before anything else happens.
template <int kRows>
inline constexpr int kVectorsAhead = kRows == 1 ? 2 : 8;

// Few rows are spread over the GPU, one to a warp and block; of many, a warp takes four.
struct RowGrid {
  int rows_per_warp;
  dim3 grid;
  dim3 block;
};

inline RowGrid make_row_grid(std::int64_t num_tokens, int num_heads) {
  const bool few = num_tokens * num_heads < 4096;
  const int rows = few ? 1 : 4;
  const int warps = few ? 1 : 4;
  return {rows, dim3(static_cast<unsigned>(num_tokens), blocks_for(num_heads, rows * warps)),
          dim3(kWarp, static_cast<unsigned>(warps))};
}

}  // namespace dcp
