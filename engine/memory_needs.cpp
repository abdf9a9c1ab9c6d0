#include "engine/memory_needs.hpp"

#include <algorithm>

#include "engine/engine_state.hpp"
#include "engine/workspace.hpp"

namespace dcp {

namespace {

// What a step's own workspace has more of than its buffers use. A workspace of another policy is
// counted where it is taken.
double bytes_beyond_use(const Scenario& scenario, const BufferPlan& plan, std::int64_t rows) {
  if (scenario.workspace.policy != WorkspacePolicy::kGraphPool) return 0;
  const WorkspaceNeed need = need_of(scenario, plan, rows);
  return need.asked_bytes > need.used_bytes
             ? static_cast<double>(need.asked_bytes - need.used_bytes)
             : 0;
}

}  // namespace

double input_bytes(const Scenario& scenario, const StepPlan& plan, const Capacity& capacity) {
  const auto rows = static_cast<double>(capacity.max_num_tokens);
  const StepShape shape = plan.shape(0, capacity.max_num_tokens);
  const double slots = static_cast<double>(capacity.num_blocks) * scenario.kv.block_size;
  const double kv_row = static_cast<double>(scenario.layers) * shape.kv_row_dim;
  const double cache = slots * kv_row * static_cast<double>(size_bytes(shape.kv_dtype));
  const double query = rows * plan.query().num_input_heads(shape) * shape.qk_head_dim;
  const double tables = rows * static_cast<double>(capacity.pages_per_request) *
                        sizeof(std::int32_t) * scenario.graph.ubatches;
  double workspace = 0;
  if (scenario.workspace.policy == WorkspacePolicy::kFixed) {
    workspace = static_cast<double>(workspace_bytes(plan.buffers(shape)));
    for (const auto& [of_rows, bytes] : scenario.workspace.need) {
      workspace = std::max(workspace, static_cast<double>(bytes));
    }
    workspace *= scenario.graph.ubatches;
  }
  double symmetric = 0;
  const BufferPlan needed = plan.buffers(shape);
  for (const BufferSpec& spec : needed.specs()) {
    if (spec.lifetime == Lifetime::kSymmetric) symmetric += static_cast<double>(spec.size_bytes);
  }
  workspace += symmetric * scenario.graph.ubatches;
  return chunk_bytes(scenario) +
         scenario.world_size *
             (cache + (rows * kv_row + query) * static_cast<double>(size_bytes(scenario.dtype)) +
              tables + workspace);
}

double chunk_bytes(const Scenario& scenario) {
  if (!scenario.kv_gather) return 0;
  const KvGatherSpec& gather = *scenario.kv_gather;
  return static_cast<double>(gather.tokens * gather.dim) * scenario.layers *
         scenario.graph.ubatches * static_cast<double>(size_bytes(gather.dtype));
}

double step_bytes(const Scenario& scenario, const StepPlan& plan,
                  const std::vector<Ubatch>& ubatches) {
  double sum = 0;
  for (const Ubatch& ubatch : ubatches) {
    const BufferPlan needed = plan.buffers(plan.shape(0, ubatch.num_rows));
    for (const BufferSpec& spec : needed.specs()) {
      if (spec.lifetime != Lifetime::kSymmetric) sum += static_cast<double>(spec.size_bytes);
    }
    sum += bytes_beyond_use(scenario, needed, ubatch.num_rows);
  }
  return sum * scenario.world_size;
}

// Measured, 2 and 8 ranks of 7,000 to 28,000 nodes each.
double record_bytes(const Scenario& scenario, std::size_t num_nodes) {
  constexpr double kOfNode = 3400;
  constexpr double kOfPair = 0.15;
  const auto nodes = static_cast<double>(num_nodes);
  return scenario.world_size * nodes * (kOfNode + nodes * kOfPair);
}

double check_bytes(const Scenario& scenario, const StepShape& shape) {
  const double rows = static_cast<double>(shape.num_tokens) * shape.num_heads;
  const double state = rows * (shape.head_dim + 1);  // out and lse of all heads
  const bool splits = scenario.attention_split == AttentionSplit::kContextThenNew;
  // Of each rank a partial of all heads and, of the heads that it keeps, a result; ag_ar keeps all.
  const double decoded = scenario.world_size * state * (splits ? 4 : 2) + rows * shape.qk_head_dim;
  const double gathered = static_cast<double>(shape.kv_gather.tokens * shape.kv_gather.dim) *
                          scenario.world_size * scenario.graph.ubatches;
  const double right = state;
  const double output = state;
  return gathered + (decoded + output) * sizeof(float) + right * sizeof(double);
}

}  // namespace dcp
