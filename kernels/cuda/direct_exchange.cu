// A block takes a run of the rows that a rank combines: it sends its own partials of them to all
// ranks, raises its flags, waits for those of the same block on each peer, and combines what they
// sent with what it has. Blocks that wait hold their place on the GPU: there are no more of them
// than the bound allows, so that the ranks that share it can come too. A lane has a vector of each
// peer's row in flight at once.
#include <algorithm>

#include "kernels/cuda/combine_rows.cuh"
#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/direct_rows.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/exchange_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

using Params = DirectExchange::Params;

constexpr int kThreads = 256;
constexpr int kBlocksPerProcessor = 4;  // for which there are registers
static_assert(kThreads / 2 > kMaxPeers);

// Rows of vectors: strides in bytes.
struct VectorRows {
  ExchangeRows rows;
  std::int32_t per_row;    // vectors
  std::int64_t peer_rows;  // of a sender in a slot
  std::int64_t out_token;  // of the partial
  std::int64_t out_head;
  std::int64_t result_token;
  std::int64_t result_head;

  __device__ bool has_lane() const { return static_cast<int>(threadIdx.x) < per_row; }
  __device__ std::int64_t peer_stride() const { return rows.heads_per_rank.value() * out_head; }

  // Of this lane, of the first peer.
  __device__ const char* partial(const DirectDispatch::Params& send, std::uint32_t row) const {
    return static_cast<const char*>(send.out.data) + rows.token(row) * out_token +
           rows.head(row) * out_head + static_cast<std::int64_t>(threadIdx.x) * kVector;
  }
};

// The rows of the peers go, and all lses. What a row needs is loaded before any of it is stored.
template <int kMaxRanks>
__device__ void send_vectors(const DirectDispatch::Params& send, const VectorRows& vectors,
                             const ExchangeTurn& turn, std::uint32_t slot) {
  const ExchangeRows& rows = vectors.rows;
  const auto lane = static_cast<int>(threadIdx.x);
  const std::int64_t first_sent =
      (std::int64_t{slot} * rows.world_size + send.rank) * vectors.peer_rows;
  const auto heads_per_rank = static_cast<std::int64_t>(rows.heads_per_rank.value());
  for (std::uint32_t row = rows.first() + threadIdx.y; row < rows.end(); row += blockDim.y) {
    const std::uint32_t token = rows.token(row);
    const bool is_empty = send.empty.has(token);
    const auto is_sent = [&](int rank) { return rank < rows.world_size && rank != send.rank; };
    float lse = 0.0f;
    if (lane < rows.world_size) {
      const HeadStrides& strides = send.lse.strides;
      lse = load_value(send.lse, token * strides.token +
                                     (rows.head(row) + lane * heads_per_rank) * strides.head);
    }
    const char* const from = vectors.partial(send, row);
    uint4 ahead[kMaxRanks];
#pragma unroll
    for (int rank = 0; rank < kMaxRanks; ++rank) {
      if (!is_sent(rank) || !vectors.has_lane()) continue;
      ahead[rank] = *reinterpret_cast<const uint4*>(from + rank * vectors.peer_stride());
    }
    if (turn.is_lost) return;
    if (lane < rows.world_size) {
      send.lse_slots.at[lane][first_sent + row] =
          std::bit_cast<float>(masked_lse_bits(lse, is_empty));
    }
    if (is_empty || !vectors.has_lane()) continue;
    const std::int64_t to = (first_sent + row) * vectors.per_row + lane;
#pragma unroll
    for (int rank = 0; rank < kMaxRanks; ++rank) {
      if (is_sent(rank)) static_cast<uint4*>(send.payload.at[rank])[to] = ahead[rank];
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

// By a whole block, after its stores: whether the rows of all peers came.
__device__ bool meet_peers(const Params& params, std::uint32_t epoch, Fault* fault) {
  const auto block = static_cast<int>(blockIdx.x);
  raise_flags(params.publish, epoch, block);
  if (thread_of_block() == kMaxPeers) begin_epoch(*params.publish.state, epoch);
  return wait_for_flags(params.wait, epoch, fault, block);
}

// What a row of the result is made of, in a slot of this rank and in its own partial; the lanes
// that share it.
struct ReceivedRow {
  const char* own;
  const char* payload;  // of the first sender
  const float* lses;
  std::int64_t part;      // from a sender's payload to the next one's, in bytes
  std::int64_t lse_part;  // likewise, of lses
  std::uint32_t* out;
  int own_rank;
  int num_words;
  int lane;

  __device__ ReceivedRow(const Params& params, const VectorRows& vectors, std::uint32_t slot,
                         std::uint32_t row)
      : part(vectors.peer_rows * vectors.per_row * kVector),
        lse_part(vectors.peer_rows),
        own_rank(params.send.rank),
        num_words(vectors.per_row * (kVector / 4)),
        lane(static_cast<int>(threadIdx.x)) {
    const DirectDispatch::Params& send = params.send;
    const ExchangeRows& rows = vectors.rows;
    const std::int64_t first = std::int64_t{slot} * rows.world_size * vectors.peer_rows + row;
    own = vectors.partial(send, row) + own_rank * vectors.peer_stride() - lane * kVector;
    payload =
        static_cast<const char*>(send.payload.at[own_rank]) + first * vectors.per_row * kVector;
    lses = send.lse_slots.at[own_rank] + first;
    out = reinterpret_cast<std::uint32_t*>(static_cast<char*>(params.out.data) +
                                           rows.token(row) * vectors.result_token +
                                           rows.head(row) * vectors.result_head);
  }

  __device__ const std::uint32_t* words(int rank) const {
    return reinterpret_cast<const std::uint32_t*>(rank == own_rank ? own : payload + rank * part);
  }
  __device__ float lse(int rank) const { return lses[rank * lse_part]; }
};

// Of up to kMaxRanks ranks, rows no longer than a block.
template <LseBase kBase, class T, int kMaxRanks>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    exchange_vectors(const __grid_constant__ Params params,
                     const __grid_constant__ VectorRows vectors, Fault* fault) {
  wait_for_predecessor();
  const ExchangeRows& rows = vectors.rows;
  const ExchangeTurn turn(rows, *params.publish.state);
  const std::uint32_t slot = slot_of(turn.epoch, params.publish.num_slots);
  send_vectors<kMaxRanks>(params.send, vectors, turn, slot);
  if (turn.is_lost || !meet_peers(params, turn.epoch, fault)) return;
  for (std::uint32_t row = rows.first() + threadIdx.y; row < rows.end(); row += blockDim.y) {
    const ReceivedRow received(params, vectors, slot, row);
    const LseSum total = combine_group<kBase, T, VectorWords, kMaxRanks>(received, rows.world_size);
    if (params.lse != nullptr && received.lane == 0) params.lse[row] = combined_lse<kBase>(total);
  }
  let_successor_come();
}

// Any number of ranks, any strides and alignment; a row to a warp.
template <LseBase kBase, class T>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    exchange_elements(const __grid_constant__ Params params,
                      const __grid_constant__ ExchangeRows rows, Fault* fault) {
  extern __shared__ float all_factors[];
  wait_for_predecessor();
  if (is_lost(*params.publish.state)) return;
  using Piece = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
  const DirectDispatch::Params& send = params.send;
  const std::uint32_t epoch = rows.next_epoch(*params.publish.state);
  const std::uint32_t slot = slot_of(epoch, send.num_slots);
  send_elements<Piece>(send, rows, slot);
  if (!meet_peers(params, epoch, fault)) return;
  const SlotRows slots{.max_num_tokens = send.max_num_tokens,
                       .world_size = rows.world_size,
                       .heads_per_rank = static_cast<int>(rows.heads_per_rank.value())};
  float* factors = all_factors + threadIdx.y * rows.world_size;
  for (std::uint32_t row = rows.first() + threadIdx.y; row < rows.end(); row += blockDim.y) {
    const std::uint32_t token = rows.token(row);
    const int head = rows.head(row);
    const auto lse_of = [&](int sender) {
      return send.lse_slots.at[send.rank][slots.row(slot, sender, token, head)];
    };
    const auto row_of = [&](int sender) -> StridedRow<const T> {
      if (sender == send.rank) {
        const int own_head = send.rank * slots.heads_per_rank + head;
        const auto* partial = static_cast<const T*>(send.out.data);
        return {partial + send.out.strides.offset(token, own_head), send.out.strides.element};
      }
      return {static_cast<const T*>(send.payload.at[send.rank]) +
                  slots.row(slot, sender, token, head) * send.head_dim,
              1};
    };
    const LseSum total = rank_factors<kBase, WarpTeam>(rows.world_size, lse_of, factors);
    T* const out = static_cast<T*>(params.out.data) + params.out.strides.offset(token, head);
    sum_rank_rows<WarpTeam>(factors, rows.world_size, send.head_dim, row_of,
                            StridedRow<T>{out, params.out.strides.element});
    if (params.lse != nullptr && WarpTeam::lane() == 0) {
      params.lse[row] = combined_lse<kBase>(total);
    }
    __syncwarp();  // the next row's factors take the place of this one's
  }
}

VectorRows vector_rows(const Params& params, const ExchangeRows& rows) {
  const DirectDispatch::Params& send = params.send;
  const auto element = static_cast<std::int64_t>(size_bytes(params.out.dtype));
  return {.rows = rows,
          .per_row = static_cast<std::int32_t>(send.head_dim * element / kVector),
          .peer_rows = send.max_num_tokens * rows.heads_per_rank.value(),
          .out_token = send.out.strides.token * element,
          .out_head = send.out.strides.head * element,
          .result_token = params.out.strides.token * element,
          .result_head = params.out.strides.head * element};
}

template <LseBase kBase, class T>
void launch_exchange(const Params& params, bool is_of_vectors, const Launch& at) {
  const DirectDispatch::Params& send = params.send;
  const ExchangeRows rows(send.num_tokens, send.num_heads, send.world_size, send.num_slots,
                          std::min(params.wait.bound.max_blocks, params.publish.num_blocks));
  const VectorRows vectors = vector_rows(params, rows);
  if (is_of_vectors && rows.world_size <= kGroup && vectors.per_row <= kThreads) {
    const auto lanes = blocks_for(vectors.per_row, kWarp) * kWarp;
    const dim3 block(lanes, kThreads / lanes);
    auto* const kernel = rows.world_size <= kGroup / 2 ? exchange_vectors<kBase, T, kGroup / 2>
                                                       : exchange_vectors<kBase, T, kGroup>;
    return launch_early(kernel, rows.num_blocks(), block, 0, at.stream, params, vectors, at.fault);
  }
  const dim3 block(kWarp, kThreads / kWarp);
  const std::size_t shared = block.y * rows.world_size * sizeof(float);
  launch_early(exchange_elements<kBase, T>, rows.num_blocks(), block, shared, at.stream, params,
               rows, at.fault);
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  const bool is_of_vectors =
      has_vector_rows(params.send.out, params.send.head_dim) &&
      has_vector_rows(params.out, params.send.head_dim) &&
      params.send.out.strides.are_of_one_rank(params.send.num_heads) &&
      params.send.lse.strides.are_of_one_rank(params.send.num_heads) &&
      params.out.strides.are_of_one_rank(params.send.num_heads / params.send.world_size);
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype,
                   [&]<class T>() { launch_exchange<kBase, T>(params, is_of_vectors, at); });
  });
}

}  // namespace dcp
