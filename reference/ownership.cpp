#include "reference/ownership.hpp"

#include <algorithm>
#include <numeric>

namespace dcp {

std::vector<std::int64_t> row_boundaries(const Batch& batch) {
  if (batch.query_start_loc) return *batch.query_start_loc;
  std::vector<std::int64_t> boundaries(batch.seq_lens.size() + 1);
  std::iota(boundaries.begin(), boundaries.end(), std::int64_t{0});
  return boundaries;
}

std::vector<RowKeys> list_row_keys(const Batch& batch, std::int64_t num_rows) {
  const std::vector<std::int64_t> boundaries = row_boundaries(batch);
  std::vector<RowKeys> rows;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::size_t request = 0;
    while (request + 1 < boundaries.size() && boundaries[request + 1] <= row) ++request;
    if (request >= batch.seq_lens.size()) {
      rows.push_back({});
      continue;
    }
    const std::int64_t query_len = boundaries[request + 1] - boundaries[request];
    const std::int64_t j = row - boundaries[request];
    const std::int64_t context = batch.seq_lens[request] - query_len;
    rows.push_back({.request = static_cast<int>(request),
                    .num_keys = std::max<std::int64_t>(0, context + j + 1),
                    .num_context = std::max<std::int64_t>(0, context)});
  }
  return rows;
}

std::vector<int> list_owners(const Scenario& scenario, const Batch& batch, int request) {
  const auto index = static_cast<std::size_t>(request);
  std::vector<int> owners(static_cast<std::size_t>(batch.seq_lens[index]), -1);
  if (!batch.local_seq_lens) {
    for (std::size_t token = 0; token < owners.size(); ++token) {
      owners[token] = static_cast<int>(static_cast<std::int64_t>(token) / scenario.interleave %
                                       scenario.world_size);
    }
    return owners;
  }
  std::size_t next = 0;
  for (int rank = 0; rank < scenario.world_size; ++rank) {
    const std::int64_t length = (*batch.local_seq_lens)[static_cast<std::size_t>(rank)][index];
    for (std::int64_t i = 0; i < length && next < owners.size(); ++i) owners[next++] = rank;
  }
  return owners;
}

std::vector<std::vector<std::ptrdiff_t>> list_tokens(const std::vector<int>& owners,
                                                     int world_size) {
  std::vector<std::vector<std::ptrdiff_t>> tokens(static_cast<std::size_t>(world_size));
  for (std::size_t token = 0; token < owners.size(); ++token) {
    if (owners[token] < 0) continue;
    tokens[static_cast<std::size_t>(owners[token])].push_back(static_cast<std::ptrdiff_t>(token));
  }
  return tokens;
}

}  // namespace dcp
