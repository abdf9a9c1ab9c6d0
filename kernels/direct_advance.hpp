// Begins a direct exchange: the rank's epoch becomes the next one. A node of the graph of its own,
// so that each replay counts and no capture does.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/exchange_state.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct DirectAdvance {
  static constexpr std::string_view kName = "direct_advance";

  struct Params {
    ExchangeState* state;
    std::uint32_t num_slots;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
