#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

// A lane for each peer.
__global__ void wait(const __grid_constant__ DirectWait::Params params, Fault* fault) {
  if (is_lost(*params.state)) return;
  wait_for_flags(params, params.state->epoch, fault);
}

}  // namespace

void launch(const DirectWait::Params& params, const Launch& at) {
  wait<<<1, kMaxPeers, 0, at.stream>>>(params, at.fault);
}

}  // namespace dcp
