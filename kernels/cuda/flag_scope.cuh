// Flags between ranks: release and acquire, and time for waits that must end.
#pragma once

#include <cstdint>

#include "kernels/exchange_state.hpp"

namespace dcp {

__device__ inline void store_release(std::uint32_t* at, std::uint32_t value, FlagScope scope) {
  if (scope == FlagScope::kGpu) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  } else {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  }
}

__device__ inline std::uint32_t load_acquire(const std::uint32_t* at, FlagScope scope) {
  std::uint32_t value;
  if (scope == FlagScope::kGpu) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  } else {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  }
  return value;
}

__device__ inline std::int64_t now_ns() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Polls until `is_there()`. False where that took longer than allowed, or the step was lost by
// another rank; asked only now and then, since both are slow to ask.
template <class IsThere>
__device__ bool wait_until(const IsThere& is_there, const volatile std::uint32_t* abort,
                           std::int64_t timeout_ns) {
  std::int64_t end = 0;
  for (unsigned polls = 1;; ++polls) {
    if (is_there()) return true;
    if (polls % 256 != 0) continue;
    const std::int64_t now = now_ns();
    if (end == 0) end = now + timeout_ns;
    if (*abort != 0 || now > end) return false;
  }
}

}  // namespace dcp
