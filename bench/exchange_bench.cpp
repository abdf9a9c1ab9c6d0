#include "bench/exchange_bench.hpp"

#include "core/error.hpp"

namespace dcp {

// deepseek-v3's heads and kimi-k3's.
std::vector<ExchangeCase> default_exchange_cases() {
  std::vector<ExchangeCase> cases;
  for (const int num_heads : {128, 96}) {
    for (const int world_size : {2, 4, 8}) {
      for (const std::int64_t num_tokens : {1, 8, 64, 256}) {
        cases.push_back({.world_size = world_size,
                         .num_heads = num_heads,
                         .head_dim = 512,
                         .num_tokens = num_tokens});
      }
    }
  }
  return cases;
}

std::vector<ExchangeForm> default_exchange_forms() {
  return {{.name = "ag_rs", .strategy = "ag_rs"},
          {.name = "a2a-interleaved", .strategy = "a2a"},
          {.name = "a2a-split", .strategy = "a2a", .a2a_layout = A2aLayout::kSplit},
          {.name = "direct-steps", .strategy = "direct"},
          {.name = "direct-fused", .strategy = "direct", .direct_form = DirectForm::kFused}};
}

#ifndef DCPSIM_HAS_CUDA
void bench_exchanges(const ExchangeBenchOptions&) {
  throw StepError("backend_unavailable", "this build has no CUDA backend");
}
#endif

}  // namespace dcp
