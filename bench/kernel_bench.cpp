#include "bench/kernel_bench.hpp"

#include "core/error.hpp"

namespace dcp {

std::vector<KernelCase> default_kernel_cases() {
  return {{8, 128, 512, DType::kBf16},
          {4, 64, 512, DType::kBf16},
          {8, 96, 512, DType::kBf16},
          {2, 32, 128, DType::kBf16}};
}

std::vector<std::int64_t> default_token_counts() { return {1, 8, 64, 256, 1024}; }

#ifndef DCPSIM_HAS_CUDA
void bench_kernels(const KernelBenchOptions&) {
  throw StepError("backend_unavailable", "this build has no CUDA backend");
}
#endif

}  // namespace dcp
