#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/system_scope.cuh"
#include "kernels/cuda/team.cuh"

namespace dcp {

namespace {

// A lane for each peer. Who waits in vain says so once; then the step is lost for all.
__global__ void wait(const __grid_constant__ DirectWait::Params params, Fault* fault) {
  const int peer = static_cast<int>(threadIdx.x);
  if (peer >= params.world_size) return;
  const std::uint32_t epoch = params.state->epoch;
  const std::uint32_t slot = slot_of(epoch, params.num_slots);
  const std::uint32_t* flag = params.signals + slot * params.world_size + peer;
  std::uint32_t seen = 0;
  const auto is_there = [&] {
    seen = load_acquire(flag);
    return seen == epoch;
  };
  if (wait_until(is_there, params.bound.abort, params.bound.timeout_ns)) return;
  if (*params.bound.abort != 0) return;
  report(fault, FaultKind::kFlagMissing, peer, params.ubatch, slot, epoch, seen);
  *params.bound.abort = 1;
  __threadfence_system();
}

}  // namespace

void launch(const DirectWait::Params& params, const Launch& at) {
  wait<<<1, kMaxPeers, 0, at.stream>>>(params, at.fault);
}

}  // namespace dcp
