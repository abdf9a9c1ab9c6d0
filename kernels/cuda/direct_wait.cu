#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

// A lane for each peer.
__global__ void wait(const __grid_constant__ DirectWait::Params params, Fault* fault) {
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < params.world_size) wait_for_flag(params, params.state->epoch, peer, fault);
}

}  // namespace

void launch(const DirectWait::Params& params, const Launch& at) {
  wait<<<1, kMaxPeers, 0, at.stream>>>(params, at.fault);
}

}  // namespace dcp
