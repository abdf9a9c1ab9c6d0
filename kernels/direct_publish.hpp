// Tells every rank that this rank's stores of the exchange are done: raises its flag there to the
// epoch, ordered after the stores by release.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/exchange_state.hpp"
#include "kernels/op.hpp"
#include "kernels/remote_stores.hpp"

namespace dcp {

struct DirectPublish {
  static constexpr std::string_view kName = "direct_publish";

  struct Params {
    ExchangeState* state;
    PeerPtrs<std::uint32_t> signals;  // of each rank: [slots, num_blocks, N], third index: sender
    RemoteStores* stores;             // host; null: stores are there at once
    std::int32_t world_size;
    std::int32_t rank;
    std::uint32_t num_slots;
    std::int32_t num_blocks = 1;  // that may raise flags of their own; here there is one
    FlagScope scope = FlagScope::kSystem;
  };

  static const void* handle(const Params& params) { return params.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
