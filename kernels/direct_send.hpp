// One side of a direct exchange in one node: the epoch advances, the rank's rows go into the peers'
// slots, and the flags are raised. What DirectAdvance, DirectDispatch and DirectPublish do one
// after the other, with their bytes and orders.
//
// On a GPU the blocks work in the slot of the epoch that is to come; the last one to finish makes
// that the epoch, raises the flags, and leaves the counter of blocks at zero for the next replay.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/direct_advance.hpp"
#include "kernels/direct_dispatch.hpp"
#include "kernels/direct_publish.hpp"

namespace dcp {

struct DirectSend {
  static constexpr std::string_view kName = "direct_send";

  struct Params {
    ConstHeadRows out;                // [T, H, D]; its dtype is that of the payload
    ConstHeadRows lse;                // [T, H] fp32, fp16 or bf16
    PeerPtrs<void> payload;           // of each rank: [slots, N, max T, h, D], by sender
    PeerPtrs<float> lse_slots;        // of each rank: [slots, N, max T, h]
    PeerPtrs<std::uint32_t> signals;  // of each rank: [slots, N]
    ExchangeState* state;
    BatchMetadata batch;
    RemoteStores* stores;  // host; null: stores are there at once
    std::int64_t num_tokens;
    std::int64_t max_num_tokens;
    std::int32_t num_heads;  // H, a multiple of world_size
    std::int32_t head_dim;
    std::int32_t world_size;
    std::int32_t rank;
    std::uint32_t num_slots;

    DirectAdvance::Params advance() const;
    DirectDispatch::Params dispatch() const;
    DirectPublish::Params publish() const;
  };

  static const void* handle(const Params& params) { return params.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
