// The flags of a direct exchange: the wait for a peer's, and what a kernel of many blocks does when
// all of them are done. The last block leaves the counter of blocks at zero for the next kernel.
#pragma once

#include "kernels/cuda/flag_scope.cuh"
#include "kernels/cuda/team.cuh"
#include "kernels/direct_publish.hpp"
#include "kernels/direct_wait.hpp"

namespace dcp {

// Whether the flag of `peer` came in time. Who waits in vain says so, once; then the step is lost
// for all.
__device__ inline bool wait_for_flag(const DirectWait::Params& params, std::uint32_t epoch,
                                     int peer, Fault* fault, int block = 0) {
  const std::uint32_t slot = slot_of(epoch, params.num_slots);
  const std::uint32_t* flag = params.signals +
                              flags_of(slot, params.world_size, params.num_blocks).first +
                              block * params.world_size + peer;
  std::uint32_t seen = 0;
  const auto is_there = [&] {
    seen = load_acquire(flag, params.scope);
    return seen == epoch;
  };
  if (wait_until(is_there, params.bound.abort, params.bound.timeout_ns)) return true;
  if (*params.bound.abort != 0) return false;
  report(fault, FaultKind::kFlagMissing, peer, params.ubatch, slot, epoch, seen);
  *params.bound.abort = 1;
  __threadfence_system();
  return false;
}

__device__ inline int thread_of_block() {
  return static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
}

// By a whole block of at least kMaxPeers threads: whether the flags of all peers came; if not, the
// state says so. What comes after is ordered behind the flags.
__device__ inline bool wait_for_flags(const DirectWait::Params& params, std::uint32_t epoch,
                                      Fault* fault, int block = 0) {
  const int peer = thread_of_block();
  const bool came = peer >= params.world_size || wait_for_flag(params, epoch, peer, fault, block);
  const bool have_all_come = __syncthreads_and(came ? 1 : 0) != 0;
  if (!have_all_come && thread_of_block() == 0) {
    atomicAdd(&params.state->num_lost, 1u);
    __threadfence();
  }
  return have_all_come;
}

// By a whole block of a grid of one dimension, after its loads. Then the rank has consumed the
// epoch, unless one of its blocks has waited in vain.
__device__ inline void finish_reading(ExchangeState& state, std::uint32_t epoch) {
  __syncthreads();
  if (thread_of_block() != 0) return;
  const bool is_last = atomicInc(&state.num_done, gridDim.x - 1) == gridDim.x - 1;
  if (is_last && atomicAdd(&state.num_lost, 0u) == 0) state.consumed = epoch;
}

// By a whole block of at least kMaxPeers threads: raises flags of `block` at all peers, after all
// that the block has stored: the barrier hands the stores of the other threads to those that
// release them.
__device__ inline void raise_flags(const DirectPublish::Params& params, std::uint32_t epoch,
                                   int block) {
  __syncthreads();
  const int peer = thread_of_block();
  if (peer >= params.world_size) return;
  const SlotFlags flags =
      flags_of(slot_of(epoch, params.num_slots), params.world_size, params.num_blocks);
  store_release(params.signals.at[peer] + flags.first + block * params.world_size + params.rank,
                epoch, params.scope);
}

// By a whole block of at least kMaxPeers threads, of a grid of one dimension, after its stores for
// `epoch`, which becomes the epoch. Every block's stores come before its count, and every count
// before the flags.
__device__ inline void finish_sending(const DirectPublish::Params& params, std::uint32_t epoch) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    is_last = atomicInc(&params.state->num_done, gridDim.x - 1) == gridDim.x - 1;
    __threadfence_system();
  }
  __syncthreads();
  if (!is_last) return;
  raise_flags(params, epoch, 0);
  if (threadIdx.x == 0) {
    params.state->epoch = epoch;
    params.state->published = epoch;
  }
}

}  // namespace dcp
