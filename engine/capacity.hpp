// How much an engine allocates before its first capture, and which sizes it captures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/scenario.hpp"
#include "engine/batch_layout.hpp"

namespace dcp {

struct Capacity {
  std::int64_t max_num_tokens = 0;  // rows of the workspace and of the metadata buffers
  std::int64_t max_rows = 0;        // of a step; below max_num_tokens where requests have no row
  std::int64_t max_exchange_tokens = 0;  // rows that a slot of the direct exchange holds
  std::string rule;                      // how max_num_tokens came about, for error messages
  std::int64_t num_blocks = 1;           // pages of KV cache per rank and layer, page 0 included
  std::int64_t pages_per_request = 1;
};

// Sizes that `capture: all` captures, in order.
std::vector<std::int64_t> capture_sizes(const Scenario& scenario);

// Batches that cannot be laid out do not count: the step that uses one refuses it. `falls_back`:
// steps that the exchange has no room for run all the same, so that only its slots are limited.
Capacity make_capacity(const Scenario& scenario, bool falls_back = false);

// StepError capacity where a step of `rows` rows and `num_requests` requests does not fit; the
// message names the missing rows and the rule.
void require_capacity(const Capacity& capacity, std::int64_t rows, std::int64_t num_requests);

}  // namespace dcp
