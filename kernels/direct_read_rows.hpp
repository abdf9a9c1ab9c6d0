// Takes the rows that the ranks have stored out of the slot of the exchange, rank after rank and
// without the room between them.
//
// Reads and writes N * num_rows * row_bytes. Moves bits. All sizes and addresses are multiples of
// 16 bytes. When it is done the rank has consumed the epoch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/exchange_state.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct DirectReadRows {
  static constexpr std::string_view kName = "direct_read_rows";

  struct Params {
    const void* slots;  // [num_slots][N][max_num_rows][row_bytes], third index: of the sender
    void* gathered;     // [N][num_rows][row_bytes]
    ExchangeState* state;
    std::int64_t num_rows;  // of each rank
    std::int64_t max_num_rows;
    std::int64_t row_bytes;
    std::int32_t world_size;
    std::uint32_t num_slots;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
