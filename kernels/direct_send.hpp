// One side of a direct exchange in one node: the epoch advances, the rank's rows go into the peers'
// slots, and the flags are raised. What DirectAdvance, DirectDispatch and DirectPublish do one
// after the other, with their bytes and orders.
//
// On a GPU the blocks work in the slot of the epoch that is to come; the last one to finish makes
// that the epoch, raises the flags, and leaves the counter of blocks at zero for the next replay.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/direct_advance.hpp"
#include "kernels/direct_dispatch.hpp"
#include "kernels/direct_publish.hpp"

namespace dcp {

struct DirectSend {
  static constexpr std::string_view kName = "direct_send";

  struct Params {
    DirectAdvance::Params advance;  // all three: of the same state
    DirectDispatch::Params dispatch;
    DirectPublish::Params publish;
  };

  static const void* handle(const Params& params) { return params.dispatch.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
