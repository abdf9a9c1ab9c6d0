// Stores a rank's rows at one place in the memory of every rank, its own included: a gather.
//
//   target of each rank [slots][slot_bytes], of which row i of this rank is the row_bytes at
//   first_byte + i * row_stride in the slot of the epoch
//
// Reads num_rows * row_bytes and stores N times as much, of which 1/N stays on the rank. Moves
// bits. All sizes and addresses are multiples of 16 bytes. Graph-safe: epoch and slot are read on
// the device.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/exchange_state.hpp"
#include "kernels/op.hpp"
#include "kernels/remote_stores.hpp"

namespace dcp {

struct DirectStoreRows {
  static constexpr std::string_view kName = "direct_store_rows";

  struct Params {
    const void* rows;       // [num_rows][row_bytes]
    PeerPtrs<void> target;  // of each rank
    const ExchangeState* state;
    RemoteStores* stores;  // host; null: stores are there at once
    std::int64_t num_rows;
    std::int64_t row_bytes;
    std::int64_t row_stride;  // bytes from row to row in the target
    std::int64_t first_byte;  // of this rank's rows in a slot
    std::int64_t slot_bytes;
    std::int32_t world_size;
    std::int32_t rank;
    std::uint32_t num_slots;
  };

  static const void* handle(const Params& params) { return params.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
