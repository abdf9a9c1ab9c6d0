// The wait for a peer's flag of a direct exchange.
#pragma once

#include "kernels/cuda/system_scope.cuh"
#include "kernels/cuda/team.cuh"
#include "kernels/direct_wait.hpp"

namespace dcp {

// Whether the flag of `peer` came in time. Who waits in vain says so, once; then the step is lost
// for all.
__device__ inline bool wait_for_flag(const DirectWait::Params& params, std::uint32_t epoch,
                                     int peer, Fault* fault) {
  const std::uint32_t slot = slot_of(epoch, params.num_slots);
  const std::uint32_t* flag = params.signals + slot * params.world_size + peer;
  std::uint32_t seen = 0;
  const auto is_there = [&] {
    seen = load_acquire(flag);
    return seen == epoch;
  };
  if (wait_until(is_there, params.bound.abort, params.bound.timeout_ns)) return true;
  if (*params.bound.abort != 0) return false;
  report(fault, FaultKind::kFlagMissing, peer, params.ubatch, slot, epoch, seen);
  *params.bound.abort = 1;
  __threadfence_system();
  return false;
}

}  // namespace dcp
