// A row of the result is shared by the lanes of one or several warps. A lane stores its line to
// every rank, then polls the lines of the same place that all ranks stored here, and combines them:
// no lane waits for another one.
#include <algorithm>
#include <bit>
#include <climits>
#include <limits>
#include <type_traits>

#include "kernels/combine_row.hpp"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/exchange_rows.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

using Params = DirectLines::Params;

constexpr int kThreads = 128;
constexpr int kLineBytes = sizeof(ExchangeLine::bits);

// One instruction each: a line is never seen in part.
__device__ void store_line(ExchangeLine* at, const ExchangeLine& line) {
  const std::uint64_t high = std::uint64_t{line.epoch} << 32 | line.lse;
  asm volatile(
      "{\n"
      ".reg .b128 line;\n"
      "mov.b128 line, {%1, %2};\n"
      "st.relaxed.sys.global.b128 [%0], line;\n"
      "}" ::"l"(at),
      "l"(line.bits), "l"(high)
      : "memory");
}

__device__ ExchangeLine load_line(const ExchangeLine* at) {
  std::uint64_t low, high;
  asm volatile(
      "{\n"
      ".reg .b128 line;\n"
      "ld.relaxed.sys.global.b128 line, [%2];\n"
      "mov.b128 {%0, %1}, line;\n"
      "}"
      : "=l"(low), "=l"(high)
      : "l"(at)
      : "memory");
  return {low, static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}

// What an element's bits are moved in.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

struct LineRows {
  ExchangeRows rows;
  SlotLines slots;
  bool has_pieces;       // the partial's rows are contiguous, and 8 bytes of them aligned
  bool has_plain_heads;  // of partial, lse and result: heads are not split over ranks

  // The division that split heads need would take longer than all else before the first store.
  __device__ std::int64_t offset(const HeadStrides& strides, std::int64_t token, int head) const {
    if (has_plain_heads) return token * strides.token + head * strides.head;
    return strides.offset(token, head);
  }

  // The line-th 8 bytes of a row of the partial.
  template <class T>
  __device__ std::uint64_t bits(const ConstHeadRows& out, std::int64_t token, int head,
                                int line) const {
    constexpr int kElements = kLineBytes / sizeof(T);
    const auto* const row =
        static_cast<const Bits<T>*>(out.data) + offset(out.strides, token, head);
    if (has_pieces) return reinterpret_cast<const std::uint64_t*>(row)[line];
    std::uint64_t bits = 0;
    for (int i = 0; i < kElements; ++i) {
      const std::uint64_t element = row[(line * kElements + i) * out.strides.element];
      bits |= element << (i * sizeof(T) * CHAR_BIT);
    }
    return bits;
  }
};

template <class T, int kMaxRanks>
__device__ void send_lines(const Params& params, const LineRows& lines, const ExchangeTurn& turn) {
  const ExchangeRows& rows = lines.rows;
  const std::uint32_t slot = slot_of(turn.epoch, params.num_slots);
  for (std::uint32_t row = rows.first() + threadIdx.y; row < rows.end(); row += blockDim.y) {
    const std::uint32_t token = rows.token(row);
    const bool is_empty = params.empty.has(token);
    const std::int64_t first = lines.slots.row(slot, params.rank, token, rows.head(row));
    for (auto i = static_cast<int>(threadIdx.x); i < lines.slots.per_row;
         i += static_cast<int>(blockDim.x)) {
      ExchangeLine ahead[kMaxRanks];
#pragma unroll
      for (int peer = 0; peer < kMaxRanks; ++peer) {
        if (peer >= rows.world_size) continue;
        const int head = peer * lines.slots.heads_per_rank + rows.head(row);
        const float lse = load_value(params.lse, lines.offset(params.lse.strides, token, head));
        ahead[peer] = {lines.bits<T>(params.out, token, head, i), std::bit_cast<std::uint32_t>(lse),
                       turn.epoch};
      }
      if (turn.is_lost) return;
#pragma unroll
      for (int peer = 0; peer < kMaxRanks; ++peer) {
        if (peer >= rows.world_size) continue;
        ExchangeLine& line = ahead[peer];
        line.lse = masked_lse_bits(std::bit_cast<float>(line.lse), is_empty);
        if (is_empty) line.bits = 0;
        store_line(params.lines.at[peer] + first + i, line);
      }
    }
  }
}

// The lines of all ranks at a place, and whether they came. Who waits in vain says so.
template <int kMaxRanks>
struct ReceivedLines {
  ExchangeLine of[kMaxRanks];

  __device__ bool wait(const Params& params, std::uint32_t epoch, const ExchangeLine* first,
                       std::int64_t step, Fault* fault) {
    int missing = 0;
    const auto are_there = [&] {
#pragma unroll
      for (int rank = 0; rank < kMaxRanks; ++rank) {
        if (rank < params.world_size) of[rank] = load_line(first + rank * step);
      }
      missing = -1;
#pragma unroll
      for (int rank = 0; rank < kMaxRanks; ++rank) {
        if (rank < params.world_size && of[rank].epoch != epoch) missing = rank;
      }
      return missing < 0;
    };
    if (wait_until(are_there, params.bound.abort, params.bound.timeout_ns)) return true;
    atomicAdd(&params.state->num_lost, 1u);
    if (*params.bound.abort != 0) return false;
    std::uint32_t seen = 0;
#pragma unroll
    for (int rank = 0; rank < kMaxRanks; ++rank) {
      if (rank == missing) seen = of[rank].epoch;
    }
    report(fault, FaultKind::kFlagMissing, missing, params.ubatch, slot_of(epoch, params.num_slots),
           epoch, seen);
    *params.bound.abort = 1;
    __threadfence_system();
    return false;
  }
};

// By a whole warp; lanes without a place in the row have lines of no rank.
template <LseBase kBase, class T, int kMaxRanks>
__device__ LseSum combine_lines(const ReceivedLines<kMaxRanks>& received, int world_size,
                                std::uint64_t& result) {
  using RankTeam = LaneTeam<kMaxLineRanks>;  // lane i looks after the lse of rank i
  constexpr int kElements = Word<T>::kElements;
  // The compiler would make an index of it, and put the lines in memory for that.
  std::uint32_t own_bits = 0;
#pragma unroll
  for (int rank = 0; rank < kMaxRanks; ++rank) {
    if (rank >= world_size) continue;
    std::uint32_t lse = received.of[rank].lse;
    asm("" : "+r"(lse));
    own_bits |= rank == RankTeam::lane() ? lse : 0u;
  }
  const float own_lse = RankTeam::lane() < world_size ? std::bit_cast<float>(own_bits)
                                                      : -std::numeric_limits<float>::infinity();
  const LseSum total = sum_lses<kBase, RankTeam>(kMaxLineRanks, [&](int) { return own_lse; });
  const float own_factor = rank_factor<kBase>(own_lse, total);
  float low[kElements];
  float high[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) low[i] = high[i] = total.sum > 0.0f ? -0.0f : 0.0f;
#pragma unroll
  for (int rank = 0; rank < kMaxRanks; ++rank) {
    if (rank >= world_size) continue;
    const float factor = __shfl_sync(~0u, own_factor, rank);
    const auto add = [&](std::uint64_t word, float(&sums)[kElements]) {
      float values[kElements];
      Word<T>::unpack(static_cast<std::uint32_t>(word), values);
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        sums[i] += factor == 0.0f ? -0.0f : factor * values[i];
      }
    };
    add(received.of[rank].bits, low);
    add(received.of[rank].bits >> 32, high);
  }
  result = std::uint64_t{Word<T>::pack(high)} << 32 | Word<T>::pack(low);
  return total;
}

template <class T>
__device__ void store_elements(const HeadRows& rows, std::int64_t first, int line,
                               std::uint64_t bits) {
  constexpr int kElements = kLineBytes / sizeof(T);
  auto* const row = static_cast<Bits<T>*>(rows.data) + first;
  for (int i = 0; i < kElements; ++i) {
    row[(line * kElements + i) * rows.strides.element] =
        static_cast<Bits<T>>(bits >> (i * sizeof(T) * CHAR_BIT));
  }
}

template <LseBase kBase, class T, int kMaxRanks>
__global__ void __launch_bounds__(kThreads)
    exchange_lines(const __grid_constant__ Params params, const __grid_constant__ LineRows lines,
                   bool has_result_pieces, Fault* fault) {
  wait_for_predecessor();
  const ExchangeRows& rows = lines.rows;
  const SlotLines& slots = lines.slots;
  const ExchangeTurn turn(rows, *params.state);
  const std::uint32_t epoch = turn.epoch;
  const std::uint32_t slot = slot_of(epoch, params.num_slots);
  send_lines<T, kMaxRanks>(params, lines, turn);
  if (turn.is_lost) return;
  __syncthreads();
  if (thread_of_block() == 0) begin_epoch(*params.state, epoch);
  const std::int64_t step = kMaxLineTokens * slots.heads_per_rank * slots.per_row;
  for (std::uint32_t row = rows.first() + threadIdx.y; row < rows.end(); row += blockDim.y) {
    const std::uint32_t token = rows.token(row);
    const int head = rows.head(row);
    const ExchangeLine* const first =
        params.lines.at[params.rank] + slots.row(slot, 0, token, head);
    const auto lane = static_cast<int>(threadIdx.x);
    for (int begin = 0; begin < slots.per_row; begin += static_cast<int>(blockDim.x)) {
      const int i = begin + lane;
      const bool has_place = i < slots.per_row;
      ReceivedLines<kMaxRanks> received;
      // A lane without a place takes the row's last line: its warp needs the lses of all ranks.
      const std::int64_t at = has_place ? i : slots.per_row - 1;
      const bool came = received.wait(params, epoch, first + at, step, fault);
      if (__all_sync(~0u, came ? 1 : 0) == 0) return;
      // Who has sent a line has sent all of its block's, so the same blocks of all ranks are here.
      let_successor_come();
      std::uint64_t result = 0;
      const LseSum total = combine_lines<kBase, T>(received, rows.world_size, result);
      if (has_place && has_result_pieces) {
        T* const out = static_cast<T*>(params.combined.data) +
                       lines.offset(params.combined.strides, token, head);
        reinterpret_cast<std::uint64_t*>(out)[i] = result;
      } else if (has_place) {
        store_elements<T>(params.combined, lines.offset(params.combined.strides, token, head), i,
                          result);
      }
      if (params.combined_lse != nullptr && i == 0) {
        params.combined_lse[row] = combined_lse<kBase>(total);
      }
    }
  }
}

bool has_plain_heads(const Params& params) {
  return params.out.strides.are_of_one_rank(params.num_heads) &&
         params.lse.strides.are_of_one_rank(params.num_heads) &&
         params.combined.strides.are_of_one_rank(params.num_heads / params.world_size);
}

template <LseBase kBase, class T>
void launch_lines(const Params& params, const Launch& at) {
  const int num_ranks = params.world_size;
  const auto per_row = static_cast<std::int32_t>(params.head_dim * sizeof(T) / kLineBytes);
  const LineRows lines{.rows = ExchangeRows(params.num_tokens, params.num_heads, num_ranks,
                                            params.num_slots, params.bound.max_blocks),
                       .slots = {num_ranks, params.num_heads / num_ranks, per_row},
                       .has_pieces = has_whole_rows(params.out, params.head_dim, kLineBytes),
                       .has_plain_heads = has_plain_heads(params)};
  const bool has_result_pieces = has_whole_rows(params.combined, params.head_dim, kLineBytes);
  const auto lanes = std::min(blocks_for(per_row, kWarp) * kWarp, unsigned{kThreads});
  const dim3 block(lanes, std::max(1u, kThreads / lanes));
  auto* const kernel = num_ranks <= kMaxLineRanks / 2 ? exchange_lines<kBase, T, kMaxLineRanks / 2>
                                                      : exchange_lines<kBase, T, kMaxLineRanks>;
  launch_early(kernel, lines.rows.num_blocks(), block, 0, at.stream, params, lines,
               has_result_pieces, at.fault);
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.combined.dtype, [&]<class T>() { launch_lines<kBase, T>(params, at); });
  });
}

}  // namespace dcp
