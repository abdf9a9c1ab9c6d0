#include "engine/capacity.hpp"

#include <algorithm>
#include <optional>

#include "core/error.hpp"

namespace dcp {

namespace {

std::optional<BatchLayout> try_layout(const Scenario& scenario, const Batch& batch) {
  try {
    return make_batch_layout(scenario, batch);
  } catch (const StepError&) {
    return std::nullopt;
  }
}

// vLLM's list: 1, 2, 4, then every 8 below 256, then every 16, up to twice the largest batch.
std::vector<std::int64_t> vllm_capture_sizes(const Scenario& scenario) {
  std::int64_t max_requests = 1;
  std::int64_t max_query_len = 1;
  for (const Batch& batch : scenario.batches) {
    const auto layout = try_layout(scenario, batch);
    if (!layout) continue;
    max_requests = std::max(max_requests, layout->num_requests());
    for (std::int64_t r = 0; r < layout->num_requests(); ++r) {
      max_query_len = std::max(max_query_len, layout->query_len(r));
    }
  }
  const std::int64_t limit = std::min<std::int64_t>(2 * max_requests * max_query_len, 512);
  std::vector<std::int64_t> sizes;
  const auto add = [&](std::int64_t size) {
    if (size <= limit) sizes.push_back(size);
  };
  for (const std::int64_t size : {1, 2, 4}) add(size);
  for (std::int64_t size = 8; size < 256; size += 8) add(size);
  for (std::int64_t size = 256; size <= 512; size += 16) add(size);
  return sizes;
}

std::int64_t by_size_rule(const SizeRule& rule, std::int64_t largest_size, std::string& text) {
  const std::int64_t per_seq = std::max(1 + rule.spec, rule.decode_query_len);
  const std::int64_t rows =
      std::min(rule.max_batched_tokens, std::max(rule.max_seqs * per_seq, largest_size));
  text = "min(max_batched_tokens " + std::to_string(rule.max_batched_tokens) + ", max(max_seqs " +
         std::to_string(rule.max_seqs) + " * max(1 + spec " + std::to_string(rule.spec) +
         ", decode_query_len " + std::to_string(rule.decode_query_len) +
         "), largest capture size " + std::to_string(largest_size) + "))";
  return rows;
}

void include_pages(const Scenario& scenario, const BatchLayout& layout, Capacity& capacity) {
  for (int rank = 0; rank < scenario.world_size; ++rank) {
    capacity.num_blocks =
        std::max(capacity.num_blocks, pages_needed(layout, rank, scenario.kv.block_size));
    for (const std::int64_t length : layout.local_seq_lens[rank]) {
      capacity.pages_per_request =
          std::max(capacity.pages_per_request, num_pages(length, scenario.kv.block_size));
    }
  }
}

}  // namespace

std::vector<std::int64_t> capture_sizes(const Scenario& scenario) {
  if (scenario.graph.capture_sizes_vllm) return vllm_capture_sizes(scenario);
  if (scenario.graph.capture_sizes) return *scenario.graph.capture_sizes;
  std::vector<std::int64_t> sizes;
  for (const Batch& batch : scenario.batches) {
    const auto layout = try_layout(scenario, batch);
    if (!layout || layout->rows == 0) continue;
    if (std::find(sizes.begin(), sizes.end(), layout->rows) == sizes.end()) {
      sizes.push_back(layout->rows);
    }
  }
  return sizes;
}

Capacity make_capacity(const Scenario& scenario, bool falls_back) {
  Capacity capacity;
  std::int64_t largest_size = 0;
  for (const std::int64_t size : capture_sizes(scenario))
    largest_size = std::max(largest_size, size);
  std::int64_t most_rows = largest_size;
  std::int64_t most_requests = 0;  // some may have no row
  for (const Step& step : scenario.steps) {
    const auto* capture = std::get_if<verb::Capture>(&step.verb);
    if (capture == nullptr) continue;
    for (const std::int64_t size : capture->sizes) most_rows = std::max(most_rows, size);
    most_rows = std::max(most_rows, capture->rows.value_or(0));
  }
  for (const Batch& batch : scenario.batches) {
    const auto layout = try_layout(scenario, batch);
    if (!layout) continue;
    most_rows = std::max(most_rows, layout->rows);
    most_requests = std::max(most_requests, layout->num_requests());
    include_pages(scenario, *layout, capacity);
  }
  const std::int64_t largest = std::max(most_rows, most_requests);
  // A capture without a batch has a one-token request in every row.
  include_pages(scenario, make_batch_layout(scenario, make_capture_batch(largest)), capacity);
  if (scenario.kv.num_blocks) capacity.num_blocks = *scenario.kv.num_blocks;
  capacity.max_num_tokens = std::max<std::int64_t>(largest, 1);
  capacity.max_rows = std::max<std::int64_t>(most_rows, 1);
  capacity.rule = "the largest of all sizes and batches";
  if (scenario.graph.max_num_tokens) {
    capacity.max_num_tokens = *scenario.graph.max_num_tokens;
    capacity.max_rows = capacity.max_num_tokens;
    capacity.rule = "graph.max_num_tokens";
  } else if (scenario.graph.size_rule) {
    capacity.max_num_tokens = by_size_rule(*scenario.graph.size_rule, largest_size, capacity.rule);
    capacity.max_rows = capacity.max_num_tokens;
  }
  capacity.max_exchange_tokens = capacity.max_num_tokens;
  if (falls_back) {
    capacity.max_num_tokens = std::max(capacity.max_num_tokens, largest);
    capacity.max_rows = std::max(capacity.max_rows, most_rows);
  }
  return capacity;
}

void require_capacity(const Capacity& capacity, std::int64_t rows, std::int64_t num_requests) {
  const auto refuse = [&](std::int64_t needed, const std::string& what) {
    throw StepError("capacity", "the step needs " + std::to_string(needed) + " " + what +
                                    ", the workspace holds " +
                                    std::to_string(capacity.max_num_tokens) + " (" + capacity.rule +
                                    "): " + std::to_string(needed - capacity.max_num_tokens) +
                                    " rows are missing");
  };
  if (rows > capacity.max_num_tokens) refuse(rows, "rows");
  if (num_requests > capacity.max_num_tokens) refuse(num_requests, "requests");
}

}  // namespace dcp
