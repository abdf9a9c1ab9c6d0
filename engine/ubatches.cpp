#include "engine/ubatches.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace dcp {

namespace {

std::vector<std::int64_t> given_starts(const Scenario& scenario,
                                       const std::vector<std::int64_t>& starts,
                                       std::int64_t padded_rows) {
  const auto refuse = [](const std::string& why) { throw StepError("ubatch_out_of_range", why); };
  if (starts.empty() || starts.front() != 0) refuse("ubatch_starts must begin with row 0");
  if (static_cast<int>(starts.size()) > scenario.graph.ubatches) {
    refuse("ubatch " + std::to_string(scenario.graph.ubatches) + " of " +
           std::to_string(scenario.graph.ubatches) + ": ubatch_starts names " +
           std::to_string(starts.size()));
  }
  for (std::size_t i = 1; i < starts.size(); ++i) {
    if (starts[i] > starts[i - 1] && starts[i] < padded_rows) continue;
    refuse("ubatch " + std::to_string(i) + " starts at row " + std::to_string(starts[i]) +
           ", not inside rows " + std::to_string(starts[i - 1] + 1) + " to " +
           std::to_string(padded_rows - 1));
  }
  return starts;
}

std::vector<std::int64_t> starts_by_rule(int num_ubatches, std::int64_t rows,
                                         std::int64_t padded_rows) {
  const std::int64_t floor = padded_rows / num_ubatches;
  if (floor == 0 || floor * (num_ubatches - 1) >= rows) return {0};
  std::vector<std::int64_t> starts;
  for (int u = 0; u < num_ubatches; ++u) starts.push_back(u * floor);
  return starts;
}

}  // namespace

std::vector<Ubatch> cut_ubatches(const Scenario& scenario, const Batch& batch, std::int64_t rows,
                                 std::int64_t padded_rows) {
  const auto starts = batch.ubatch_starts
                          ? given_starts(scenario, *batch.ubatch_starts, padded_rows)
                          : starts_by_rule(scenario.graph.ubatches, rows, padded_rows);
  std::vector<Ubatch> ubatches;
  for (std::size_t u = 0; u < starts.size(); ++u) {
    const std::int64_t end = u + 1 < starts.size() ? starts[u + 1] : padded_rows;
    ubatches.push_back({.first_row = starts[u], .num_rows = end - starts[u]});
  }
  return ubatches;
}

RankBatch ubatch_of(RankBatch batch, const Ubatch& ubatch) {
  for (std::int32_t& boundary : batch.query_start_loc) {
    boundary = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(boundary - ubatch.first_row, 0, ubatch.num_rows));
  }
  const auto rows = static_cast<std::int64_t>(batch.slot_mapping.size());
  const std::int64_t begin = std::min(ubatch.first_row, rows);
  const std::int64_t end = std::min(ubatch.first_row + ubatch.num_rows, rows);
  const auto keep_own = [&](auto& of_rows) {
    of_rows.erase(of_rows.begin() + end, of_rows.end());
    of_rows.erase(of_rows.begin(), of_rows.begin() + begin);
  };
  keep_own(batch.causal_bounds);
  keep_own(batch.empty_ranks);
  keep_own(batch.new_bounds);
  keep_own(batch.slot_mapping);
  return batch;
}

}  // namespace dcp
