// One side of a gather in one node: the epoch advances, the rank's rows go to every rank, and the
// flags are raised. What DirectAdvance, DirectStoreRows and DirectPublish do one after the other.
//
// On a GPU the blocks work in the slot of the epoch that is to come; the last one to finish makes
// that the epoch, raises the flags, and leaves the counter of blocks at zero for the next replay.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/direct_advance.hpp"
#include "kernels/direct_publish.hpp"
#include "kernels/direct_store_rows.hpp"

namespace dcp {

struct DirectSendRows {
  static constexpr std::string_view kName = "direct_send_rows";

  struct Params {
    DirectAdvance::Params advance;  // all three: of the same state
    DirectStoreRows::Params store;
    DirectPublish::Params publish;
  };

  static const void* handle(const Params& params) { return params.store.stores; }
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
