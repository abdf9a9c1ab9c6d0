// A block takes a run of the rows that a rank combines: it sends its own partials of them to all
// ranks, raises its flags, waits for those of the same block on each peer, and combines what they
// sent. Blocks that wait hold their place on the GPU: there are no more of them than the bound
// allows, so that the ranks that share it can come too. Few rows are a matter of latency: what is
// divided by is known before, a lane has a vector of each peer's row in flight at once.
#include <algorithm>

#include "core/divisor.hpp"
#include "kernels/cuda/combine_rows.cuh"
#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/direct_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

using Params = DirectExchange::Params;

constexpr int kThreads = 256;
constexpr int kBlocksPerProcessor = 4;  // for which there are registers
static_assert(kThreads / 2 >= kMaxPeers);

// The rows that a rank combines, in the order of (token, head), and those of a block of it: they
// follow each other.
struct ExchangeRows {
  Divisor heads_per_rank;
  std::uint32_t num_rows;
  std::uint32_t rows_per_block;
  std::uint32_t last_epoch;
  std::int32_t world_size;
  std::int32_t per_row;    // vectors
  std::int64_t peer_rows;  // of a sender in a slot
  std::int64_t out_token;  // strides of the partial and of the result, in bytes
  std::int64_t out_head;
  std::int64_t result_token;
  std::int64_t result_head;

  __device__ std::uint32_t first() const { return blockIdx.x * rows_per_block; }
  __device__ std::uint32_t end() const { return min(first() + rows_per_block, num_rows); }
  __device__ std::uint32_t token(std::uint32_t row) const { return heads_per_rank.of(row); }
  __device__ int head(std::uint32_t row) const {
    return static_cast<int>(row - token(row) * heads_per_rank.value());
  }
  __device__ std::uint32_t next_epoch(const ExchangeState& state) const {
    return state.epoch >= last_epoch ? 0 : state.epoch + 1;
  }
  __device__ std::int64_t sent_row(const DirectDispatch::Params& send, std::uint32_t slot,
                                   std::uint32_t row) const {
    return (std::int64_t{slot} * world_size + send.rank) * peer_rows + row;
  }
};

// By the lanes of a row: its lses, one to each peer.
__device__ void send_lses(const DirectDispatch::Params& send, const ExchangeRows& rows,
                          std::uint32_t row, std::int64_t sent_row, bool is_empty) {
  const HeadStrides& strides = send.lse.strides;
  const int heads_per_rank = static_cast<int>(rows.heads_per_rank.value());
  const std::int64_t first = rows.token(row) * strides.token + rows.head(row) * strides.head;
  for (auto peer = static_cast<int>(threadIdx.x); peer < rows.world_size;
       peer += static_cast<int>(blockDim.x)) {
    const float lse = load_value(send.lse, first + peer * heads_per_rank * strides.head);
    send.lse_slots.at[peer][sent_row] = std::bit_cast<float>(masked_lse_bits(lse, is_empty));
  }
}

// A lane takes the same vectors of a row's heads of all peers, up to eight at a time.
__device__ void send_vectors(const DirectDispatch::Params& send, const ExchangeRows& rows,
                             std::uint32_t slot) {
  const std::int64_t peer_stride = rows.heads_per_rank.value() * rows.out_head;
  for (std::uint32_t row = rows.first() + threadIdx.y; row < rows.end(); row += blockDim.y) {
    const std::int64_t sent_row = rows.sent_row(send, slot, row);
    const bool is_empty = send.empty.has(rows.token(row));
    const char* from = static_cast<const char*>(send.out.data) + rows.token(row) * rows.out_token +
                       rows.head(row) * rows.out_head;
    send_lses(send, rows, row, sent_row, is_empty);
    for (auto at = static_cast<int>(threadIdx.x); at < rows.per_row;
         at += static_cast<int>(blockDim.x)) {
      for (int first = 0; first < rows.world_size; first += kGroup) {
        uint4 ahead[kGroup];
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
          if (first + i >= rows.world_size) break;
          ahead[i] = reinterpret_cast<const uint4*>(from + (first + i) * peer_stride)[at];
        }
        if (is_empty) break;
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
          if (first + i >= rows.world_size) break;
          auto* const payload = static_cast<uint4*>(send.payload.at[first + i]);
          payload[sent_row * rows.per_row + at] = ahead[i];
        }
      }
    }
  }
}

// Any strides.
template <class Piece>
__device__ void send_elements(const DirectDispatch::Params& send, const ExchangeRows& rows,
                              std::uint32_t slot) {
  for (std::uint32_t row = rows.first() + threadIdx.y; row < rows.end(); row += blockDim.y) {
    for (int peer = 0; peer < rows.world_size; ++peer) {
      const int head = peer * static_cast<int>(rows.heads_per_rank.value()) + rows.head(row);
      store_row<Piece>(send, slot, rows.token(row), head, send.out.strides.element, send.head_dim);
    }
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

// What a row of the result is made of, in a slot of this rank; the lanes that share it.
struct SlotRow {
  const char* payload;  // of the first sender
  const float* lses;
  std::int64_t part;      // from a sender's payload to the next one's, in bytes
  std::int64_t lse_part;  // likewise, of lses
  std::uint32_t* out;
  int num_words;
  int lane;
  int num_lanes;

  __device__ SlotRow(const Params& params, const ExchangeRows& rows, std::uint32_t slot,
                     std::uint32_t row)
      : part(rows.peer_rows * rows.per_row * kVector),
        lse_part(rows.peer_rows),
        num_words(rows.per_row * (kVector / 4)),
        lane(static_cast<int>(threadIdx.x)),
        num_lanes(static_cast<int>(blockDim.x)) {
    const DirectDispatch::Params& send = params.send;
    const std::int64_t first_row = std::int64_t{slot} * rows.world_size * rows.peer_rows + row;
    payload =
        static_cast<const char*>(send.payload.at[send.rank]) + first_row * rows.per_row * kVector;
    lses = send.lse_slots.at[send.rank] + first_row;
    out = reinterpret_cast<std::uint32_t*>(static_cast<char*>(params.out.data) +
                                           rows.token(row) * rows.result_token +
                                           rows.head(row) * rows.result_head);
  }

  __device__ const std::uint32_t* words(int rank) const {
    return reinterpret_cast<const std::uint32_t*>(payload + rank * part);
  }
  __device__ float lse(int rank) const { return lses[rank * lse_part]; }
};

// Rows are vectors. Of more than eight ranks, and rows longer than a block, words are combined.
template <LseBase kBase, class T, bool kInVectors>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    exchange_vectors(const __grid_constant__ Params params,
                     const __grid_constant__ ExchangeRows rows, Fault* fault) {
  extern __shared__ float all_factors[];
  const std::uint32_t epoch = rows.next_epoch(*params.publish.state);
  const std::uint32_t slot = slot_of(epoch, params.publish.num_slots);
  const auto block = static_cast<int>(blockIdx.x);
  send_vectors(params.send, rows, slot);
  raise_flags(params.publish, epoch, block);
  const bool came = wait_for_flags(params.wait, epoch, fault, block);
  for (std::uint32_t row = rows.first() + threadIdx.y; came && row < rows.end();
       row += blockDim.y) {
    const SlotRow sent(params, rows, slot, row);
    LseSum total;
    if constexpr (kInVectors) {
      total = combine_group<kBase, T, VectorWords>(sent, rows.world_size);
    } else {
      const unsigned warp = thread_of_block() / kWarp;
      total = combine_groups<kBase, T>(sent, rows.world_size, all_factors + warp * rows.world_size);
      __syncwarp();  // the next row's factors take the place of this one's
    }
    if (params.lse != nullptr && sent.lane == 0) params.lse[row] = combined_lse<kBase>(total);
  }
  finish(*params.publish.state, epoch, came);
}

// Any strides and alignment; a row to a warp.
template <LseBase kBase, class T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    exchange_elements(const __grid_constant__ Params params,
                      const __grid_constant__ ExchangeRows rows, Fault* fault) {
  extern __shared__ float all_factors[];
  using Piece = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
  const DirectDispatch::Params& send = params.send;
  const std::uint32_t epoch = rows.next_epoch(*params.publish.state);
  const std::uint32_t slot = slot_of(epoch, send.num_slots);
  const auto block = static_cast<int>(blockIdx.x);
  send_elements<Piece>(send, rows, slot);
  raise_flags(params.publish, epoch, block);
  const bool came = wait_for_flags(params.wait, epoch, fault, block);
  const std::int64_t slot_rows = std::int64_t{slot} * rows.world_size * rows.peer_rows;
  float* factors = all_factors + threadIdx.y * rows.world_size;
  for (std::uint32_t row = rows.first() + threadIdx.y; came && row < rows.end();
       row += blockDim.y) {
    const auto lse_of = [&](int sender) {
      return send.lse_slots.at[send.rank][slot_rows + sender * rows.peer_rows + row];
    };
    const auto row_of = [&](int sender) {
      return static_cast<const T*>(send.payload.at[send.rank]) +
             (slot_rows + sender * rows.peer_rows + row) * send.head_dim;
    };
    const LseSum total = rank_factors<kBase, WarpTeam>(rows.world_size, lse_of, factors);
    T* const out = static_cast<T*>(params.out.data) +
                   params.out.strides.offset(rows.token(row), rows.head(row));
    sum_rank_rows<WarpTeam>(factors, rows.world_size, send.head_dim, row_of,
                            StridedRow<T>{out, params.out.strides.element});
    if (params.lse != nullptr && WarpTeam::lane() == 0) {
      params.lse[row] = combined_lse<kBase>(total);
    }
    __syncwarp();  // the next row's factors take the place of this one's
  }
  finish(*params.publish.state, epoch, came);
}

ExchangeRows exchange_rows(const Params& params) {
  const DirectDispatch::Params& send = params.send;
  const auto element = static_cast<std::int64_t>(size_bytes(params.out.dtype));
  const auto heads_per_rank = static_cast<std::uint32_t>(send.num_heads / send.world_size);
  const auto num_rows = static_cast<std::uint32_t>(send.num_tokens) * heads_per_rank;
  const auto most = static_cast<std::uint32_t>(
      std::max(1, std::min(params.wait.bound.max_blocks, params.publish.num_blocks)));
  return {.heads_per_rank = Divisor(heads_per_rank),
          .num_rows = num_rows,
          .rows_per_block = std::max(1u, (num_rows + most - 1) / most),
          .last_epoch = last_epoch(send.num_slots),
          .world_size = send.world_size,
          .per_row = static_cast<std::int32_t>(send.head_dim * element / kVector),
          .peer_rows = send.max_num_tokens * heads_per_rank,
          .out_token = send.out.strides.token * element,
          .out_head = send.out.strides.head * element,
          .result_token = params.out.strides.token * element,
          .result_head = params.out.strides.head * element};
}

template <LseBase kBase, class T>
void launch_exchange(const Params& params, bool is_of_vectors, const Launch& at) {
  const ExchangeRows rows = exchange_rows(params);
  const unsigned blocks =
      std::max(1u, (rows.num_rows + rows.rows_per_block - 1) / rows.rows_per_block);
  if (is_of_vectors && rows.world_size <= kGroup && rows.per_row <= kThreads) {
    const auto lanes = blocks_for(rows.per_row, kWarp) * kWarp;
    exchange_vectors<kBase, T, true>
        <<<blocks, dim3(lanes, kThreads / lanes), 0, at.stream>>>(params, rows, at.fault);
    return;
  }
  const dim3 block(kWarp, kThreads / kWarp);
  const std::size_t shared = block.y * rows.world_size * sizeof(float);
  auto* const kernel =
      is_of_vectors ? exchange_vectors<kBase, T, false> : exchange_elements<kBase, T>;
  kernel<<<blocks, block, shared, at.stream>>>(params, rows, at.fault);
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  const bool is_of_vectors =
      has_vector_rows(params.send.out, params.send.head_dim) &&
      has_vector_rows(params.out, params.send.head_dim) &&
      params.send.out.strides.heads_per_rank >= params.send.num_heads &&
      params.send.lse.strides.heads_per_rank >= params.send.num_heads &&
      params.out.strides.heads_per_rank * params.send.world_size >= params.send.num_heads;
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype,
                   [&]<class T>() { launch_exchange<kBase, T>(params, is_of_vectors, at); });
  });
}

}  // namespace dcp
