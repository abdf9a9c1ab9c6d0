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

// request_of_row() by a warp, 32 boundaries a step: the loads of a step do not wait for each other.
__device__ inline std::int32_t request_of_row_by_warp(const BatchMetadata& batch,
                                                      std::int64_t row) {
  std::int32_t low = 0;
  std::int32_t high = batch.num_requests;
  while (low < high) {
    const std::int32_t step = (high - low + kWarp - 1) / kWarp;
    const std::int32_t probe = low + WarpTeam::lane() * step;
    const bool is_before = probe < high && batch.query_start_loc[probe + 1] <= row;
    const int num_before = __popc(__ballot_sync(~0u, is_before));  // the first ones
    const std::int32_t end = low + num_before * step;
    if (num_before > 0) low = end - step + 1;
    high = end < high ? end : high;
  }
  return low;
}

// row_is_empty() by a warp.
__device__ inline bool row_is_empty_by_warp(const BatchMetadata& batch, std::int64_t row) {
  if (batch.query_start_loc == nullptr) return false;
  const std::int32_t request = request_of_row_by_warp(batch, row);
  if (request >= batch.num_requests) return true;
  if (batch.seq_lens[request] == 0) return true;
  return batch.causal_bounds != nullptr && batch.causal_bounds[row] == 0;
}

}  // namespace dcp
