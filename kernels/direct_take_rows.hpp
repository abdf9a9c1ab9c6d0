// The other side of a gather in one node: waits for the peers' flags and takes their rows out of
// the slot. What DirectWait and DirectReadRows do one after the other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/direct_read_rows.hpp"
#include "kernels/direct_wait.hpp"

namespace dcp {

struct DirectTakeRows {
  static constexpr std::string_view kName = "direct_take_rows";
  static constexpr std::string_view kStuckKind = DirectWait::kStuckKind;

  struct Params {
    DirectWait::Params wait;  // both: of the same state
    DirectReadRows::Params read;
  };

  static const void* handle(const Params& params) { return params.wait.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void arrive(const Params&) {}
  static bool ready(const Params& params) { return DirectWait::ready(params.wait); }
  static std::string waits_for(const Params& params) { return DirectWait::waits_for(params.wait); }
  static void run(const Params& params);
};

}  // namespace dcp
