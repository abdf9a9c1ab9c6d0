// A direct exchange in one node: the epoch advances, the rank's rows go into the peers' slots,
// flags are raised, the peers' flags awaited, and their rows combined where they lie in the slot.
// What DirectAdvance, DirectDispatch, DirectPublish, DirectWait, DirectRead and A2aCombine do one
// after the other, with the same bits, without moving received rows once more, nor those rows of
// the partial that the rank combines itself.
//
// Reads T * H * (D * e + lse size) + N * T * h * (D * e + 4) bytes, stores (N-1)/N * T * H * D * e
// + T * H * 4 and writes T * h * (D * e + 4). On a GPU each block sends the rows that the block of
// the same number combines on the other ranks, and has a flag of its own for them: no block waits
// for a whole kernel. All blocks of all ranks must be on the GPU at the same time; the wait is
// bounded. The last block that raises its flags advances the epoch and leaves the counter of blocks
// at zero.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/lse.hpp"
#include "kernels/direct_advance.hpp"
#include "kernels/direct_dispatch.hpp"
#include "kernels/direct_publish.hpp"
#include "kernels/direct_wait.hpp"

namespace dcp {

// Flags that a sender has in a slot, one for each block that may raise one.
inline constexpr std::int32_t kExchangeBlocks = 128;

struct DirectExchange {
  static constexpr std::string_view kName = "direct_exchange";
  static constexpr std::string_view kStuckKind = DirectWait::kStuckKind;

  struct Params {
    DirectDispatch::Params send;  // keeps_own_rows
    DirectPublish::Params publish;
    DirectWait::Params wait;
    HeadRows out;  // [T, h, D]; its dtype is that of the payload
    float* lse;    // [T, h], or null: not wanted
    LseBase base;
  };

  static const void* handle(const Params& params) { return params.send.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void arrive(const Params& params);
  static bool ready(const Params& params) { return DirectWait::ready(params.wait); }
  static std::string waits_for(const Params& params) { return DirectWait::waits_for(params.wait); }
  static void run(const Params& params);
};

}  // namespace dcp
