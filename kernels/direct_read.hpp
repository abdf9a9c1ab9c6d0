// Takes what the ranks have sent out of the slot of the exchange, in the form that the combine
// reads: PackedRows in the split layout. Rows of which the lse says that they count nothing have no
// payload in the slot, and none is moved.
//
// Reads and writes at most N * T * h * (D * e + 4) bytes. Moves bits. When it is done the rank has
// consumed the epoch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/exchange_state.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct DirectRead {
  static constexpr std::string_view kName = "direct_read";

  struct Params {
    const void* payload;     // [slots, N, max T, h, D] of this rank, second index: sender
    const float* lse_slots;  // [slots, N, max T, h]
    void* received;          // PackedRows, split, one part per sender
    ExchangeState* state;
    std::int64_t num_tokens;
    std::int64_t max_num_tokens;
    std::int32_t heads_per_rank;
    std::int32_t head_dim;
    std::int32_t world_size;
    std::uint32_t num_slots;
    DType dtype;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
