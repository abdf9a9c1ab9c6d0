// A value in pinned memory, which host and device see at the same address. It is the backend's own:
// no step uses it, so no ledger holds it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

struct FreePinned {
  template <class T>
  void operator()(T* memory) const {
    cudaFreeHost(const_cast<std::remove_cv_t<T>*>(memory));
  }
};

template <class T>
using Pinned = std::unique_ptr<T, FreePinned>;

template <class T>
Pinned<T> make_pinned() {
  static_assert(std::is_trivially_destructible_v<T>);
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, sizeof(T)), "cudaMallocHost");
  return Pinned<T>(::new (memory) T{});
}

}  // namespace dcp
