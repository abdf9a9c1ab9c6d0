#include "kernels/direct_publish.hpp"

#include "kernels/accesses.hpp"

namespace dcp {

void DirectPublish::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
  for (int peer = 0; peer < params.world_size; ++peer) {
    for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
      const auto flags = flags_of(slot, params.world_size, params.num_blocks);
      const bool is_one = params.num_blocks == 1;
      declare(out, params.signals.at[peer] + flags.first + (is_one ? params.rank : 0),
              (is_one ? 1 : flags.count) * static_cast<std::int64_t>(sizeof(std::uint32_t)),
              Mode::kWrite, "signals");
    }
  }
}

void DirectPublish::run(const Params& params) {
  const std::uint32_t epoch = params.state->epoch;
  const std::int64_t flag =
      flags_of(slot_of(epoch, params.num_slots), params.world_size, params.num_blocks).first +
      params.rank;
  for (int peer = 0; peer < params.world_size; ++peer) {
    std::uint32_t* const at = params.signals.at[peer] + flag;
    if (params.stores == nullptr || peer == params.rank) {
      *at = epoch;
    } else {
      params.stores->store_release({params.rank, peer}, at, epoch);
    }
  }
  params.state->published = epoch;
}

}  // namespace dcp
