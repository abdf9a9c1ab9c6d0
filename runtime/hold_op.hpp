// Stands before an op that is held back, and lets it go when the scenario says so.
#pragma once

#include <string>
#include <vector>

#include "kernels/op.hpp"
#include "runtime/interference.hpp"

namespace dcp {

struct HoldOp {
  static constexpr std::string_view kName = "hold";
  struct Params {
    const Interference* by;
    std::int64_t hold;
  };
  static void accesses(const Params&, std::vector<Access>&) {}
  static void arrive(const Params&) {}
  static bool ready(const Params& p) { return p.by->is_released(static_cast<int>(p.hold)); }
  static std::string waits_for(const Params& p) {
    return p.by->waits_for(static_cast<int>(p.hold));
  }
  static void run(const Params&) {}
};

}  // namespace dcp
