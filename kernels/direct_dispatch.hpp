// Stores a rank's partial straight into the slots of the ranks that combine it: to each rank the
// rows of its heads and their lses. The empty-shard mask is fused: of rows that are empty on this
// rank only the lse is sent, -inf.
//
// Reads T * H * (D * e + lse size) + 8 * T bytes, stores at most T * H * (D * e + 4), of which 1/N
// stays on the rank. Moves bits; only a 16-bit lse is widened. Rows lie max_num_tokens apart, so
// that steps of all sizes use the same slots. Graph-safe: epoch, slot and empty rows are read on
// the device.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/empty_ranks.hpp"
#include "kernels/exchange_state.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"
#include "kernels/remote_stores.hpp"

namespace dcp {

struct DirectDispatch {
  static constexpr std::string_view kName = "direct_dispatch";

  struct Params {
    ConstHeadRows out;          // [T, H, D]; its dtype is that of the payload
    ConstHeadRows lse;          // [T, H] fp32, fp16 or bf16
    PeerPtrs<void> payload;     // of each rank: [slots, N, max T, h, D], second index: sender
    PeerPtrs<float> lse_slots;  // of each rank: [slots, N, max T, h]
    const ExchangeState* state;
    EmptyRows empty;
    RemoteStores* stores;  // host; null: stores are there at once
    std::int64_t num_tokens;
    std::int64_t max_num_tokens;
    std::int32_t num_heads;  // H, a multiple of world_size
    std::int32_t head_dim;
    std::int32_t world_size;
    std::int32_t rank;
    std::uint32_t num_slots;
  };

  static const void* handle(const Params& params) { return params.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
