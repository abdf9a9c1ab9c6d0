// The plan of a decode step: which stages run in a layer, over which shapes, with which buffers.
// Every branch on the scenario is taken here; what follows only loops.
#pragma once

#include <memory>
#include <vector>

#include "core/scenario.hpp"
#include "engine/attention_stages.hpp"
#include "engine/layer_stages.hpp"

namespace dcp {

class StepPlan {
 public:
  // StepError heads_not_divisible where H is not a multiple of N or the group has no whole number
  // of KV heads that divides H, capacity where padded_num_heads is below H.
  StepPlan(const Scenario& scenario, const Strategy& strategy, std::int64_t max_num_tokens,
           std::int64_t max_exchange_tokens);
  StepPlan(const Scenario& scenario, const Strategy& strategy, std::int64_t max_num_tokens)
      : StepPlan(scenario, strategy, max_num_tokens, max_num_tokens) {}

  // Sizes of a step of `num_tokens` rows on `rank`.
  StepShape shape(int rank, std::int64_t num_tokens) const;

  // Buffers that a step of this shape needs.
  BufferPlan buffers(const StepShape& shape) const;

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }  // of one layer
  const QueryStage& query() const { return *query_; }
  const Strategy& strategy() const { return strategy_; }

 private:
  StepShape shape_;  // of rank 0, with no rows
  const Strategy& strategy_;
  std::vector<std::unique_ptr<Stage>> stages_;
  const QueryStage* query_ = nullptr;  // one of stages_
};

// Enqueues the whole step, layer after layer, stage after stage: eagerly or into a capture.
// Ubatches run on their own lanes, forked off the first one's compute stream and joined to it at
// the end.
void enqueue_decode_step(const StepPlan& plan, const std::vector<StageContext>& ubatches);

}  // namespace dcp
