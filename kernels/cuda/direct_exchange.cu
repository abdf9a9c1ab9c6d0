// A block takes every so-many-th of the rows that a rank combines: it sends its own partials of
// them to all ranks, raises its flags, waits for those of the same block on each peer, and combines
// what they sent. Blocks that wait hold their place on the GPU: there are no more of them than the
// bound allows, so that the ranks that share it can come too.
#include <algorithm>

#include "kernels/cuda/combine_rows.cuh"
#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/direct_rows.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/slot_rows.hpp"

namespace dcp {

namespace {

using Params = DirectExchange::Params;

constexpr int kThreads = 256;
constexpr int kBlocksPerProcessor = 4;  // for which there are registers
static_assert(kThreads / 2 >= kMaxPeers);

// The rows of a block: (token, head of the rank that combines it), for each of the ranks.
struct BlockRows {
  int heads_per_rank;
  std::int64_t count;  // of rows to combine

  __device__ BlockRows(const DirectDispatch::Params& send)
      : heads_per_rank(send.num_heads / send.world_size),
        count(share(send.num_tokens * heads_per_rank)) {}

  __device__ static std::int64_t share(std::int64_t rows) {
    return (rows - blockIdx.x + gridDim.x - 1) / gridDim.x;
  }
  __device__ std::int64_t row(std::int64_t i) const { return blockIdx.x + i * gridDim.x; }
  __device__ std::int64_t token(std::int64_t i) const { return row(i) / heads_per_rank; }
  __device__ int head(std::int64_t i) const { return static_cast<int>(row(i) % heads_per_rank); }
};

// A row on its way, in vectors: what a warp can hold of it is loaded before the slot is known.
struct RowInFlight {
  static constexpr int kHeld = 2;

  std::int64_t token = 0;
  int head = 0;
  const uint4* from = nullptr;  // null: no row
  uint4 held[kHeld];

  __device__ void load(const DirectDispatch::Params& send, const BlockRows& rows, std::int64_t item,
                       int per_row) {
    if (item >= rows.count * send.world_size) return;
    const std::int64_t i = item / send.world_size;
    token = rows.token(i);
    head = static_cast<int>(item % send.world_size) * rows.heads_per_rank + rows.head(i);
    from =
        reinterpret_cast<const uint4*>(static_cast<const char*>(send.out.data) +
                                       send.out.strides.offset(token, head) *
                                           static_cast<std::int64_t>(size_bytes(send.out.dtype)));
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int at = WarpTeam::lane() + k * kWarp;
      if (at < per_row) held[k] = from[at];
    }
  }

  __device__ void store(const DirectDispatch::Params& send, std::uint32_t slot, int per_row) const {
    if (from == nullptr) return;
    const PeerRow to(send, slot, token, head);
    const bool is_empty = row_is_empty_by_warp(send.batch, token);
    to.store_lse(send, token, head, is_empty);
    if (is_empty) return;
    auto* const payload = static_cast<uint4*>(send.payload.at[to.peer]) + to.row * per_row;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int at = WarpTeam::lane() + k * kWarp;
      if (at < per_row) payload[at] = held[k];
    }
    for (int at = WarpTeam::lane() + kHeld * kWarp; at < per_row; at += kWarp) {
      payload[at] = from[at];
    }
  }
};

__device__ inline int warps_of_block() { return static_cast<int>(blockDim.x * blockDim.y) / kWarp; }

__device__ void send_vectors(const DirectDispatch::Params& send, const BlockRows& rows,
                             std::uint32_t slot, int per_row) {
  constexpr int kRows = 2;
  const std::int64_t items = rows.count * send.world_size;
  for (std::int64_t item = thread_of_block() / kWarp; item < items;
       item += kRows * warps_of_block()) {
    RowInFlight in_flight[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      in_flight[j].load(send, rows, item + j * warps_of_block(), per_row);
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) in_flight[j].store(send, slot, per_row);
  }
}

// Any strides.
template <class Piece>
__device__ void send_elements(const DirectDispatch::Params& send, const BlockRows& rows,
                              std::uint32_t slot) {
  const std::int64_t items = rows.count * send.world_size;
  for (std::int64_t item = thread_of_block() / kWarp; item < items; item += warps_of_block()) {
    const std::int64_t i = item / send.world_size;
    const int peer = static_cast<int>(item % send.world_size);
    store_row<Piece>(send, slot, rows.token(i), peer * rows.heads_per_rank + rows.head(i),
                     send.out.strides.element, send.head_dim);
  }
}

// By a whole block: the rank has come to the end of the exchange, if its flags came.
__device__ void finish(ExchangeState& state, std::uint32_t epoch, bool came) {
  __syncthreads();
  if (thread_of_block() != 0) return;
  if (atomicInc(&state.num_done, gridDim.x - 1) != gridDim.x - 1) return;
  state.epoch = epoch;
  state.published = epoch;
  if (came) state.consumed = epoch;
}

__device__ CombineRows rows_in_slot(CombineRows rows, std::uint32_t slot) {
  rows.payload += std::int64_t{slot} * rows.world_size * rows.part;
  rows.lses += std::int64_t{slot} * rows.world_size * rows.lse_part;
  return rows;
}

// Rows are vectors. Of more than eight ranks, and rows longer than a block, words are combined.
template <LseBase kBase, class T, bool kInVectors>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    exchange_vectors(const __grid_constant__ Params params,
                     const __grid_constant__ CombineRows first_slot, int per_row, Fault* fault) {
  extern __shared__ float all_factors[];
  const std::uint32_t epoch = next_epoch(params.publish.state->epoch, params.publish.num_slots);
  const std::uint32_t slot = slot_of(epoch, params.publish.num_slots);
  const auto block = static_cast<int>(blockIdx.x);
  const BlockRows mine(params.send);
  send_vectors(params.send, mine, slot, per_row);
  raise_flags(params.publish, epoch, block);
  const bool came = wait_for_flags(params.wait, epoch, fault, block);
  const CombineRows rows = rows_in_slot(first_slot, slot);
  for (std::int64_t i = threadIdx.y; came && i < mine.count; i += blockDim.y) {
    const std::int64_t token = mine.token(i);
    const int head = mine.head(i);
    const CombinedRow<std::int64_t> row(rows, token, head);
    LseSum total;
    if constexpr (kInVectors) {
      total = combine_group<kBase, T, VectorWords>(row, rows.world_size);
    } else {
      const unsigned warp = thread_of_block() / kWarp;
      total = combine_groups<kBase, T>(row, rows.world_size, all_factors + warp * rows.world_size);
      __syncwarp();  // the next row's factors take the place of this one's
    }
    store_lse<kBase>(rows, row, token, head, total);
  }
  finish(*params.publish.state, epoch, came);
}

// Any strides and alignment; a row to a warp.
template <LseBase kBase, class T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    exchange_elements(const __grid_constant__ Params params, Fault* fault) {
  extern __shared__ float all_factors[];
  using Piece = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
  const DirectDispatch::Params& send = params.send;
  const std::uint32_t epoch = next_epoch(params.publish.state->epoch, send.num_slots);
  const std::uint32_t slot = slot_of(epoch, send.num_slots);
  const auto block = static_cast<int>(blockIdx.x);
  const BlockRows mine(send);
  send_elements<Piece>(send, mine, slot);
  raise_flags(params.publish, epoch, block);
  const bool came = wait_for_flags(params.wait, epoch, fault, block);
  const SlotRows slots{.max_num_tokens = send.max_num_tokens,
                       .world_size = send.world_size,
                       .heads_per_rank = mine.heads_per_rank};
  float* factors = all_factors + threadIdx.y * send.world_size;
  for (std::int64_t i = threadIdx.y; came && i < mine.count; i += blockDim.y) {
    const std::int64_t token = mine.token(i);
    const int head = mine.head(i);
    const auto lse_of = [&](int sender) {
      return send.lse_slots.at[send.rank][slots.row(slot, sender, token, head)];
    };
    const auto row_of = [&](int sender) {
      return static_cast<const T*>(send.payload.at[send.rank]) +
             slots.row(slot, sender, token, head) * send.head_dim;
    };
    const LseSum total = rank_factors<kBase, WarpTeam>(send.world_size, lse_of, factors);
    sum_rank_rows<WarpTeam>(
        factors, send.world_size, send.head_dim, row_of,
        StridedRow<T>{static_cast<T*>(params.out.data) + params.out.strides.offset(token, head),
                      params.out.strides.element});
    if (params.lse != nullptr && WarpTeam::lane() == 0) {
      params.lse[token * mine.heads_per_rank + head] = combined_lse<kBase>(total);
    }
    __syncwarp();  // the next row's factors take the place of this one's
  }
  finish(*params.publish.state, epoch, came);
}

CombineRows rows_of_first_slot(const Params& params) {
  const DirectDispatch::Params& send = params.send;
  const auto element = static_cast<std::int64_t>(size_bytes(params.out.dtype));
  const std::int64_t row = send.head_dim * element;
  const int heads_per_rank = send.num_heads / send.world_size;
  const std::int64_t rows_per_part = send.max_num_tokens * heads_per_rank;
  return {.payload = static_cast<const char*>(send.payload.at[send.rank]),
          .lses = reinterpret_cast<const char*>(send.lse_slots.at[send.rank]),
          .part = rows_per_part * row,
          .lse_part = rows_per_part * static_cast<std::int64_t>(sizeof(float)),
          .payload_row = row,
          .lse_row = sizeof(float),
          .out = static_cast<char*>(params.out.data),
          .out_token = params.out.strides.token * element,
          .out_head = params.out.strides.head * element,
          .lse = params.lse,
          .num_tokens = send.num_tokens,
          .heads_per_rank = heads_per_rank,
          .num_words = static_cast<std::int32_t>(row / 4),
          .world_size = send.world_size};
}

unsigned blocks_of(const Params& params) {
  const std::int64_t rows =
      params.send.num_tokens * (params.send.num_heads / params.send.world_size);
  const int most = std::min(params.wait.bound.max_blocks, params.publish.num_blocks);
  return static_cast<unsigned>(std::clamp<std::int64_t>(rows, 1, std::max(1, most)));
}

template <LseBase kBase, class T>
void launch_vectors(const Params& params, const Launch& at) {
  const CombineRows rows = rows_of_first_slot(params);
  const int per_row = rows.num_words * 4 / kVector;
  const auto blocks = blocks_of(params);
  if (rows.world_size <= kGroup && per_row <= kThreads) {
    const auto lanes = blocks_for(per_row, kWarp) * kWarp;
    exchange_vectors<kBase, T, true>
        <<<blocks, dim3(lanes, kThreads / lanes), 0, at.stream>>>(params, rows, per_row, at.fault);
    return;
  }
  const dim3 block(kWarp, kThreads / kWarp);
  const std::size_t shared = block.y * rows.world_size * sizeof(float);
  exchange_vectors<kBase, T, false>
      <<<blocks, block, shared, at.stream>>>(params, rows, per_row, at.fault);
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  const bool is_of_vectors =
      has_vector_rows(params.send.out, params.send.head_dim) &&
      has_vector_rows(params.out, params.send.head_dim) &&
      params.out.strides.heads_per_rank * params.send.world_size >= params.send.num_heads;
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      if (is_of_vectors) return launch_vectors<kBase, T>(params, at);
      const dim3 block(kWarp, kThreads / kWarp);
      const std::size_t shared = block.y * params.send.world_size * sizeof(float);
      exchange_elements<kBase, T>
          <<<blocks_of(params), block, shared, at.stream>>>(params, at.fault);
    });
  });
}

}  // namespace dcp
