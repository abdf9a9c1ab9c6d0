// Teams of lanes on the GPU (kernels/team.hpp), and what a kernel needs to report a fault.
#pragma once

#include <cstdint>

#include "kernels/cuda/fault.hpp"
#include "kernels/team.hpp"

namespace dcp {

inline constexpr int kWarp = 32;

// The lanes of a warp. Sums are taken over a tree: the same bits on every lane.
struct WarpTeam {
  __device__ static int lane() { return static_cast<int>(threadIdx.x % kWarp); }
  static constexpr int size() { return kWarp; }
  __device__ static float sum(float x) {
    for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
  }
  __device__ static float max(float x) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(~0u, x, step);
      x = other > x ? other : x;
    }
    return x;
  }
  __device__ static void sync() { __syncwarp(); }
};

// The first fault of a rank stays.
template <class... Values>
__device__ void report(Fault* fault, FaultKind kind, Values... values) {
  const auto code = static_cast<std::uint32_t>(kind);
  if (atomicCAS_system(&fault->kind, 0u, code) != 0u) return;
  int i = 0;
  ((fault->values[i++] = static_cast<std::int64_t>(values)), ...);
  __threadfence_system();
}

// Index of this thread's warp in the grid.
__device__ inline std::int64_t global_warp() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
}

// Blocks of `threads` threads that together have at least `count` threads.
inline unsigned blocks_for(std::int64_t count, int threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

}  // namespace dcp
