#include "bench/step_bench.hpp"

#include "core/error.hpp"

namespace dcp {

std::vector<StepCase> default_step_cases() {
  return {{"deepseek-v3", 1, 61, 512},
          {"deepseek-v3", 8, 61, 512},
          {"kimi-k3", 4, 4, 4096},
          {"kimi-k3", 4, 24, 4096}};
}

#ifndef DCPSIM_HAS_CUDA
void bench_steps(const StepBenchOptions&) {
  throw StepError("backend_unavailable", "this build has no CUDA backend");
}
#endif

}  // namespace dcp
