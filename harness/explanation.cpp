#include "harness/explanation.hpp"

#include "core/error.hpp"
#include "engine/capacity.hpp"
#include "harness/explained_strategy.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

void explain_rows(const Scenario& scenario, ExplainedBatch& batch) {
  const BatchLayout& layout = batch.layout;
  batch.rows.resize(static_cast<std::size_t>(layout.rows));
  for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
    if (layout.seq_lens[r] == 0) continue;  // a padding request: its rows are padding
    for (std::int64_t j = 0; j < layout.query_len(r); ++j) {
      ExplainedRow& row = batch.rows[static_cast<std::size_t>(layout.query_start_loc[r] + j)];
      row.request = r;
      row.position = layout.seq_lens[r] - layout.query_len(r) + j;
      for (int rank = 0; rank < scenario.world_size; ++rank) {
        const Shard shard{rank, scenario.world_size, scenario.interleave};
        row.keys.push_back(local_bound(layout, shard, r, layout.sharded_bound(r, j)));
      }
    }
  }
}

ExplainedBatch explain_batch(const Scenario& scenario, const Batch& batch) {
  ExplainedBatch explained{.name = batch.name};
  try {
    explained.layout = make_batch_layout(scenario, batch);
    explain_rows(scenario, explained);
  } catch (const StepError& error) {
    explained.error = {error.kind(), error.why()};
  }
  return explained;
}

}  // namespace

Explanation explain(const Scenario& scenario, const std::vector<std::string>& strategies) {
  const Capacity capacity = make_capacity(scenario);
  Explanation explanation{.max_num_tokens = capacity.max_num_tokens,
                          .capacity_rule = capacity.rule,
                          .num_blocks = capacity.num_blocks,
                          .legality = vllm_legality(scenario),
                          .batches = {},
                          .strategies = {}};
  for (const Batch& batch : scenario.batches) {
    explanation.batches.push_back(explain_batch(scenario, batch));
  }
  for (const std::string& name : strategies) {
    explanation.strategies.push_back(explain_strategy(scenario, *find_strategy(name)));
  }
  return explanation;
}

}  // namespace dcp
