// Times the combine of a strategy alone, exchange included, over ranks that share a GPU.
//
// Method: every rank captures 20 combines in a row into one graph, over random bf16 partials
// without an empty shard; all ranks launch it 20 times. The time is that of the host from the first
// launch until all are done, divided by the number of combines, the middle one of five such rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/direct_spec.hpp"
#include "core/packed_rows.hpp"

namespace dcp {

// A strategy, and the form of its exchange.
struct ExchangeForm {
  std::string name;  // "a2a-split", "direct-fused"
  std::string_view strategy;
  A2aLayout a2a_layout = A2aLayout::kInterleaved;
  DirectForm direct_form = DirectForm::kSteps;
};

struct ExchangeCase {
  int world_size;
  int num_heads;
  int head_dim;
  std::int64_t num_tokens;
};

struct ExchangeRecord {
  std::string label;     // "exchange-direct-fused-N4-H128-D512-T8"
  double num_nodes = 0;  // of a rank's graph, for each combine
  double time_us = 0;
  std::size_t sent_bytes = 0;  // by a rank, for each combine
};

struct ExchangeBenchOptions {
  std::vector<ExchangeCase> cases;
  std::vector<ExchangeForm> forms;
  std::function<bool(const std::string& label)> wants;
  std::function<void(const ExchangeRecord&)> report;  // called for each, as it is measured
};

std::vector<ExchangeCase> default_exchange_cases();
std::vector<ExchangeForm> default_exchange_forms();

// StepError backend_unavailable in a build without CUDA.
void bench_exchanges(const ExchangeBenchOptions& options);

}  // namespace dcp
