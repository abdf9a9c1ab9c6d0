// Where rows lie in the slots of a direct exchange, [slots, N, max T, h, ...] by sender.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace dcp {

struct SlotRows {
  std::int64_t max_num_tokens;
  std::int32_t world_size;
  std::int32_t heads_per_rank;

  // Number of the row (token, head) of a sender; an lse slot holds one element of each.
  DCP_HOST_DEVICE std::int64_t row(std::uint32_t slot, int sender, std::int64_t token,
                                   int head) const {
    return ((static_cast<std::int64_t>(slot) * world_size + sender) * max_num_tokens + token) *
               heads_per_rank +
           head;
  }
};

}  // namespace dcp
