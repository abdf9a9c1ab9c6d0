// The other side of a direct exchange in one node: waits for the peers' flags and combines their
// rows where they lie in the slot. What DirectWait, DirectRead and A2aCombine do one after the
// other, with the same bits, without moving the rows in between.
//
// Reads at most N * T * h * (D * e + 4) bytes, writes T * h * (D * e + 4). A row whose lse says
// that it counts nothing has no payload, and none is used. When it is done the rank has consumed
// the epoch. On a GPU the wait is bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/lse.hpp"
#include "kernels/direct_wait.hpp"
#include "kernels/head_rows.hpp"

namespace dcp {

struct DirectCombine {
  static constexpr std::string_view kName = "direct_combine";
  static constexpr std::string_view kStuckKind = DirectWait::kStuckKind;

  struct Params {
    const void* payload;           // [slots, N, max T, h, D] of this rank, second index: sender
    const float* lse_slots;        // [slots, N, max T, h]
    const std::uint32_t* signals;  // [slots, N]
    ExchangeState* state;
    HeadRows out;          // [T, h, D]; its dtype is that of the payload
    float* lse;            // [T, h], or null: not wanted
    RemoteStores* stores;  // host; null: stores are there at once
    WaitBound bound;       // GPU
    std::int64_t num_tokens;
    std::int64_t max_num_tokens;
    std::int32_t heads_per_rank;
    std::int32_t head_dim;
    std::int32_t world_size;
    std::int32_t rank;
    std::int32_t ubatch;
    std::uint32_t num_slots;
    LseBase base;

    DirectWait::Params wait() const;
  };

  static const void* handle(const Params& params) { return params.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void arrive(const Params&) {}
  static bool ready(const Params& params) { return DirectWait::ready(params.wait()); }
  static std::string waits_for(const Params& params) {
    return DirectWait::waits_for(params.wait());
  }
  static void run(const Params& params);
};

}  // namespace dcp
