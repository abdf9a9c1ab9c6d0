#include "kernels/cuda/flag_scope.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

// A lane for each peer. The release covers the stores of the kernels before this one too.
__global__ void publish(const __grid_constant__ DirectPublish::Params params) {
  if (is_lost(*params.state)) return;
  const int peer = static_cast<int>(threadIdx.x);
  const std::uint32_t epoch = params.state->epoch;
  if (peer < params.world_size) {
    const SlotFlags flags =
        flags_of(slot_of(epoch, params.num_slots), params.world_size, params.num_blocks);
    __threadfence_system();
    store_release(params.signals.at[peer] + flags.first + params.rank, epoch, params.scope);
  }
  if (peer == 0) params.state->published = epoch;
}

}  // namespace

void launch(const DirectPublish::Params& params, const Launch& at) {
  publish<<<1, kMaxPeers, 0, at.stream>>>(params);
}

}  // namespace dcp
