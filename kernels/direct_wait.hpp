// Waits until every rank has published its stores of the exchange: until the slot's flags are this
// epoch, exactly. What comes after is ordered by acquire. On a GPU the wait is bounded; one in vain
// is noted in the state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/exchange_state.hpp"
#include "kernels/op.hpp"
#include "kernels/remote_stores.hpp"

namespace dcp {

// How a wait on a GPU ends without its flags.
struct WaitBound {
  volatile std::uint32_t* abort;  // not 0: the step is lost, nobody waits any more
  std::int64_t timeout_ns;
  std::int32_t max_blocks;  // of a kernel that waits: the others of the GPU have room beside them
};

// What a wait of an exchange says of itself, and of a peer whose flag is another epoch's.
std::string wanted_text(int ubatch, std::uint32_t epoch, std::uint32_t num_slots);
std::string seen_text(int peer, std::uint32_t seen);

struct DirectWait {
  static constexpr std::string_view kName = "direct_wait";
  static constexpr std::string_view kStuckKind = "wait_timeout";

  struct Params {
    ExchangeState* state;
    const std::uint32_t* signals;  // [slots, num_blocks, N] of this rank
    RemoteStores* stores;          // host; null: stores are there at once
    WaitBound bound;               // GPU
    std::int32_t world_size;
    std::int32_t rank;
    std::int32_t ubatch;
    std::uint32_t num_slots;
    std::int32_t num_blocks = 1;  // that may have flags of their own; here there is one
    FlagScope scope = FlagScope::kSystem;
  };

  static const void* handle(const Params& params) { return params.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void arrive(const Params&) {}
  static bool ready(const Params& params);
  static std::string waits_for(const Params& params);
  static void run(const Params& params);
};

}  // namespace dcp
