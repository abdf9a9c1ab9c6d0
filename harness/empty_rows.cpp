#include "harness/empty_rows.hpp"

namespace dcp {

std::vector<std::int64_t> empty_rows_of(const Scenario& scenario, const StepRun& run, int rank) {
  const BatchLayout& layout = run.layout;
  const Shard shard{rank, scenario.world_size, scenario.interleave};
  std::vector<std::int64_t> empty;
  for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
    for (std::int64_t j = 0; j < layout.query_len(r); ++j) {
      if (local_bound(layout, shard, r, layout.sharded_bound(r, j)) == 0) {
        empty.push_back(layout.query_start_loc[r] + j);
      }
    }
  }
  for (std::int64_t row = layout.query_start_loc.back(); row < run.step->rows; ++row) {
    empty.push_back(row);
  }
  return empty;
}

}  // namespace dcp
