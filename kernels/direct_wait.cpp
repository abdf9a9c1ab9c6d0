#include "kernels/direct_wait.hpp"

#include <algorithm>

#include "kernels/accesses.hpp"

namespace dcp {

namespace {

// Flags [N] of the slot in which the exchange happens.
const std::uint32_t* flags(const DirectWait::Params& params) {
  const std::uint32_t slot = slot_of(params.state->epoch, params.num_slots);
  return params.signals + flags_of(slot, params.world_size, params.num_blocks).first;
}

}  // namespace

std::string wanted_text(int ubatch, std::uint32_t epoch, std::uint32_t num_slots) {
  return "ubatch " + std::to_string(ubatch) + ", slot " +
         std::to_string(slot_of(epoch, num_slots)) + ", wants epoch " + std::to_string(epoch);
}

std::string seen_text(int peer, std::uint32_t seen) {
  return ", sees " + std::to_string(seen) + " of rank " + std::to_string(peer);
}

void DirectWait::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
  declare(out, params.signals,
          std::int64_t{params.num_slots} * params.num_blocks * params.world_size *
              static_cast<std::int64_t>(sizeof(std::uint32_t)),
          Mode::kRead, "signals");
}

bool DirectWait::ready(const Params& params) {
  const std::uint32_t* const slot = flags(params);
  return std::all_of(slot, slot + params.world_size,
                     [&](std::uint32_t flag) { return flag == params.state->epoch; });
}

std::string DirectWait::waits_for(const Params& params) {
  const std::uint32_t epoch = params.state->epoch;
  std::string text = wanted_text(params.ubatch, epoch, params.num_slots);
  for (int peer = 0; peer < params.world_size; ++peer) {
    const std::uint32_t flag = flags(params)[peer];
    if (flag != epoch) text += seen_text(peer, flag);
  }
  return text;
}

void DirectWait::run(const Params& params) {
  if (params.stores != nullptr) params.stores->acquire(params.rank);
}

}  // namespace dcp
