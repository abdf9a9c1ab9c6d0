// Programmatic dependent launch: a kernel that is launched early comes to the GPU as soon as all
// blocks of its predecessor have let it come, or have ended, and waits there until that predecessor
// is done. What waits for peers lets its successor come when these are on the GPU: blocks
// that wait must not take the room of who is waited for.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

namespace dcp {

// By all threads of a kernel that may be launched early, before memory is read or written. After
// it all that the predecessor wrote is seen, and what that one read may be overwritten. No wait
// where the kernel was not launched early.
__device__ inline void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void let_successor_come() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether the kernel waits: not where it was compiled for less than compute capability 9.0, which a
// newer GPU may run too.
inline bool can_launch_early(const void* kernel) {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

// Of a kernel that calls wait_for_predecessor().
template <class... Params, class... Arguments>
void launch_early(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = can_launch_early(reinterpret_cast<const void*>(kernel)) ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace dcp
