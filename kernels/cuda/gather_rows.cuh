// Rows of a gather on their way to every rank, and out of the slot: 16 bytes to a lane.
#pragma once

#include <algorithm>

#include "kernels/cuda/rows.cuh"
#include "kernels/direct_read_rows.hpp"
#include "kernels/direct_store_rows.hpp"

namespace dcp {

inline constexpr int kGatherThreads = 256;
static_assert(kGatherThreads >= kMaxPeers);

// Blocks for `count` vectors, at most `most`.
inline unsigned gather_blocks(std::int64_t size_bytes, std::int64_t most) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(blocks_for(size_bytes / kVector, kGatherThreads), 1, most));
}

// By a whole grid of one dimension.
__device__ inline void store_rows(const DirectStoreRows::Params& params, std::uint32_t slot) {
  const std::int64_t per_row = params.row_bytes / kVector;
  const std::int64_t count = params.num_rows * per_row;
  const std::int64_t first = slot * params.slot_bytes + params.first_byte;
  const auto* rows = static_cast<const uint4*>(params.rows);
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const uint4 vector = rows[i];
    const std::int64_t to = first + i / per_row * params.row_stride + i % per_row * kVector;
    for (int peer = 0; peer < params.world_size; ++peer) {
      *reinterpret_cast<uint4*>(static_cast<char*>(params.target.at[peer]) + to) = vector;
    }
  }
}

// By a whole grid of one dimension.
__device__ inline void read_rows(const DirectReadRows::Params& params, std::uint32_t slot) {
  const std::int64_t per_sender = params.num_rows * params.row_bytes / kVector;
  const std::int64_t stride = params.max_num_rows * params.row_bytes / kVector;
  const auto* slots = static_cast<const uint4*>(params.slots) +
                      static_cast<std::int64_t>(slot) * params.world_size * stride;
  auto* gathered = static_cast<uint4*>(params.gathered);
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < params.world_size * per_sender; i += std::int64_t{gridDim.x} * blockDim.x) {
    gathered[i] = slots[i / per_sender * stride + i % per_sender];
  }
}

}  // namespace dcp
