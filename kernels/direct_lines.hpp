// A direct exchange of few rows in one node, as DirectExchange, in which every 16 bytes say
// themselves that they came: a line is 8 bytes of a row, the row's lse and the epoch, stored and
// loaded as one. So there is no flag, and no store waits for another one: twice the bytes, and less
// latency. After NCCL's LL protocol, whose lines have 8 bytes: these ask of the way to a peer that
// 16 bytes get there as one, as they do on one GPU.
//
// Reads T * H * (D * e + lse size) + 2 * N * T * h * D * e bytes, stores 2 * T * H * D * e and
// writes T * h * (D * e + 4). Lines of rows that are empty on this rank hold zeros and the lse
// -inf. All blocks of all ranks must be on the GPU at the same time; the wait is bounded. Rows lie
// kMaxLineTokens apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/lse.hpp"
#include "kernels/direct_dispatch.hpp"
#include "kernels/direct_wait.hpp"

namespace dcp {

struct alignas(16) ExchangeLine {
  std::uint64_t bits;  // of the row
  std::uint32_t lse;   // bits of an fp32
  std::uint32_t epoch;
};

inline constexpr std::size_t kLineBytesPerByte = sizeof(ExchangeLine) / sizeof(ExchangeLine::bits);

// With more rows or ranks flags are faster.
inline constexpr int kMaxLineTokens = 2;
inline constexpr int kMaxLineRanks = 8;

struct DirectLines {
  static constexpr std::string_view kName = "direct_lines";
  static constexpr std::string_view kStuckKind = DirectWait::kStuckKind;

  struct Params {
    ConstHeadRows out;             // [T, H, D], T at most kMaxLineTokens
    ConstHeadRows lse;             // [T, H] fp32, fp16 or bf16
    PeerPtrs<ExchangeLine> lines;  // of each rank: [slots, N, kMaxLineTokens, h, D * e / 8], second
                                   // index: sender
    ExchangeState* state;
    EmptyRows empty;
    RemoteStores* stores;  // host; null: stores are there at once
    WaitBound bound;       // GPU
    HeadRows combined;     // [T, h, D]; its dtype is that of `out`
    float* combined_lse;   // [T, h], or null: not wanted
    std::int64_t num_tokens;
    std::int32_t num_heads;  // H, a multiple of world_size
    std::int32_t head_dim;
    std::int32_t world_size;  // at most kMaxLineRanks
    std::int32_t rank;
    std::int32_t ubatch;
    std::uint32_t num_slots;
    LseBase base;
  };

  static const void* handle(const Params& params) { return params.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void arrive(const Params& params);
  static bool ready(const Params& params);
  static std::string waits_for(const Params& params);
  static void run(const Params& params);
};

// Where the lines of a row begin.
struct SlotLines {
  std::int32_t world_size;
  std::int32_t heads_per_rank;
  std::int32_t per_row;

  DCP_HOST_DEVICE std::int64_t row(std::uint32_t slot, int sender, std::int64_t token,
                                   int head) const {
    const auto of_sender = static_cast<std::int32_t>(slot) * world_size + sender;
    const auto of_token = of_sender * kMaxLineTokens + static_cast<std::int32_t>(token);
    return static_cast<std::int64_t>(of_token * heads_per_rank + head) * per_row;
  }
};

}  // namespace dcp
