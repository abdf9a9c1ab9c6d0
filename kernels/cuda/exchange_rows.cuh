// The rows that a rank combines in a direct exchange of one kernel, and how blocks share them. Few
// rows are a matter of latency: what is divided by is known before.
#pragma once

#include <algorithm>

#include "core/divisor.hpp"
#include "kernels/cuda/direct_flags.cuh"
#include "kernels/head_rows.hpp"

namespace dcp {

// In the order of (token, head). Those of a block follow each other.
struct ExchangeRows {
  Divisor heads_per_rank;
  std::uint32_t num_rows;
  std::uint32_t rows_per_block;
  std::int32_t world_size;
  std::uint32_t last_epoch;

  ExchangeRows(std::int64_t num_tokens, int num_heads, int num_ranks, std::uint32_t num_slots,
               int max_blocks)
      : heads_per_rank(static_cast<std::uint32_t>(num_heads / num_ranks)),
        num_rows(static_cast<std::uint32_t>(num_tokens) * heads_per_rank.value()),
        rows_per_block(std::max(1u, blocks_for(num_rows, std::max(1, max_blocks)))),
        world_size(num_ranks),
        last_epoch(dcp::last_epoch(num_slots)) {}

  unsigned num_blocks() const { return std::max(1u, blocks_for(num_rows, rows_per_block)); }

  __device__ std::uint32_t first() const { return blockIdx.x * rows_per_block; }
  __device__ std::uint32_t end() const { return min(first() + rows_per_block, num_rows); }
  __device__ std::uint32_t token(std::uint32_t row) const { return heads_per_rank.of(row); }
  __device__ int head(std::uint32_t row) const {
    return static_cast<int>(row - token(row) * heads_per_rank.value());
  }
  __device__ std::uint32_t next_epoch(const ExchangeState& state) const {
    return state.epoch >= last_epoch ? 0 : state.epoch + 1;
  }
};

// What a kernel has to know of the state before it sends. The answer takes as long as a row, so
// rows are asked for before it is looked at.
struct ExchangeTurn {
  bool is_lost;  // then nothing is sent
  std::uint32_t epoch;

  __device__ ExchangeTurn(const ExchangeRows& rows, const ExchangeState& state)
      : is_lost(dcp::is_lost(state)), epoch(rows.next_epoch(state)) {}
};

// By one thread of a block whose threads have all read the epoch, which is now `epoch`, for all of
// an exchange. The last block says so, and leaves the counter of blocks at zero for the next
// kernel.
__device__ inline void begin_epoch(ExchangeState& state, std::uint32_t epoch) {
  if (atomicInc(&state.num_done, gridDim.x - 1) != gridDim.x - 1) return;
  state.epoch = epoch;
  state.published = epoch;
  state.consumed = epoch;
}

}  // namespace dcp
