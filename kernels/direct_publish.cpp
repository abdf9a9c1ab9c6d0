#include "kernels/direct_publish.hpp"

#include "kernels/accesses.hpp"

namespace dcp {

void DirectPublish::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
  for (int peer = 0; peer < params.world_size; ++peer) {
    for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
      declare(out, params.signals.at[peer] + slot * params.world_size + params.rank,
              sizeof(std::uint32_t), Mode::kWrite, "signals");
    }
  }
}

void DirectPublish::run(const Params& params) {
  const std::uint32_t epoch = params.state->epoch;
  const std::uint32_t flag =
      slot_of(epoch, params.num_slots) * static_cast<std::uint32_t>(params.world_size) +
      static_cast<std::uint32_t>(params.rank);
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
