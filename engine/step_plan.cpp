#include "engine/step_plan.hpp"

#include "core/error.hpp"
#include "engine/kv_gather_stage.hpp"
#include "strategies/direct_gathers.hpp"

namespace dcp {

namespace {

[[noreturn]] void refuse_kv_heads(const Scenario& scenario, const std::string& why) {
  throw StepError("heads_not_divisible", std::to_string(scenario.model.num_kv_heads) +
                                             " KV heads * " + std::to_string(scenario.world_size) +
                                             " ranks / tensor_parallel_size " +
                                             std::to_string(scenario.tensor_parallel_size) + why);
}

// Query head h of the group reads KV head h / (H / G), so G must be a whole number that divides H.
void require_kv_heads(const Scenario& scenario) {
  if (scenario.model.attention != Attention::kGqa) return;
  const std::int64_t heads = std::int64_t{scenario.model.num_kv_heads} * scenario.world_size;
  if (heads > scenario.tensor_parallel_size && heads % scenario.tensor_parallel_size != 0) {
    refuse_kv_heads(scenario, " is not a whole number of KV heads of the group");
  }
  const int num_heads = scenario.group_num_heads();
  const int num_kv_heads = scenario.group_num_kv_heads();
  if (num_heads % num_kv_heads != 0) {
    refuse_kv_heads(scenario, " is " + std::to_string(num_kv_heads) +
                                  " KV heads of the group, which do not divide its " +
                                  std::to_string(num_heads) + " query heads");
  }
}

StepShape base_shape(const Scenario& scenario, std::int64_t max_num_tokens) {
  const int num_heads = scenario.group_num_heads();
  if (num_heads % scenario.world_size != 0) {
    throw StepError("heads_not_divisible", std::to_string(num_heads) +
                                               " query heads of the group are not divisible by " +
                                               std::to_string(scenario.world_size) + " ranks");
  }
  require_kv_heads(scenario);
  const int padded = scenario.model.padded_num_heads.value_or(num_heads);
  if (padded < num_heads) {
    throw StepError("capacity", "padded_num_heads " + std::to_string(padded) +
                                    " does not cover the group's " + std::to_string(num_heads) +
                                    " query heads");
  }
  return {
      .world_size = scenario.world_size,
      .rank = 0,
      .layers = scenario.layers,
      .num_tokens = 0,
      .max_num_tokens = max_num_tokens,
      .num_heads = num_heads,
      .padded_num_heads = padded,
      .heads_per_rank = num_heads / scenario.world_size,
      .qk_head_dim = scenario.model.qk_head_dim(),
      .head_dim = scenario.model.v_head_dim(),
      .dtype = scenario.dtype,
      .lse = scenario.lse,
      .reduce_dtype = scenario.reduce_dtype == ReduceDtype::kFp32 ? DType::kFp32 : scenario.dtype,
      .a2a_layout = scenario.a2a_layout,
      .return_lse = scenario.return_lse,
      .num_kv_heads = scenario.group_num_kv_heads(),
      .kv_row_dim = scenario.kv_row_dim(),
      .kv_dtype = scenario.kv_dtype(),
      .num_splits = scenario.split_kv.value_or(1),
      .direct = scenario.direct,
      .kv_gather = scenario.kv_gather.value_or(KvGatherSpec{}),
      .copies_lse = scenario.lse.dtype != DType::kFp32 || padded != num_heads};
}

// What the scenario asks for or, where rows are not aligned for it and it allows so, all_gather.
QueryMode query_mode(const Scenario& scenario, const StepShape& shape) {
  if (scenario.query != QueryMode::kDirect || scenario.world_size == 1) return scenario.query;
  if (scenario.direct.fallback == DirectFallback::kNone) require_query_alignment(shape);
  return has_aligned_queries(shape) ? QueryMode::kDirect : QueryMode::kAllGather;
}

// The form that the query's gather and the combine have: if one of them stores to peers, so does
// this.
std::unique_ptr<Stage> kv_gather_stage(const Scenario& scenario, const Strategy& strategy,
                                       const StepShape& shape) {
  if (shape.kv_gather.tokens % scenario.world_size != 0) {
    throw StepError("capacity", "kv_gather.tokens is " + std::to_string(shape.kv_gather.tokens) +
                                    ", which " + std::to_string(scenario.world_size) +
                                    " ranks cannot have the same number of");
  }
  const bool is_direct = scenario.query == QueryMode::kDirect || strategy.uses_peer_memory();
  if (!is_direct || scenario.world_size == 1) return make_collective_kv_gather_stage();
  if (scenario.direct.fallback == DirectFallback::kNone) require_kv_alignment(shape);
  return has_aligned_kv(shape) ? make_direct_kv_gather_stage() : make_collective_kv_gather_stage();
}

}  // namespace

StepPlan::StepPlan(const Scenario& scenario, const Strategy& strategy, std::int64_t max_num_tokens,
                   std::int64_t max_exchange_tokens)
    : shape_(base_shape(scenario, max_num_tokens)), strategy_(strategy) {
  shape_.max_exchange_tokens = max_exchange_tokens;
  const bool all_heads = strategy.keeps_all_heads();
  const QueryMode mode = query_mode(scenario, shape_);
  auto query = make_query_stage(mode, all_heads, scenario.world_size);
  query_ = query.get();
  stages_.push_back(make_kv_append_stage());
  if (scenario.kv_gather) stages_.push_back(kv_gather_stage(scenario, strategy, shape_));
  stages_.push_back(std::move(query));
  stages_.push_back(scenario.data.kind == DataKind::kGiven
                        ? make_given_partials_stage()
                        : make_attention_stage(scenario.model.attention, *query_));
  if (scenario.attention_split == AttentionSplit::kContextThenNew) {
    auto new_attention = make_new_attention_stage(*query_, all_heads);
    // Once the combine is done, peers may store the next query over the one that is attended to.
    if (mode == QueryMode::kDirect) stages_.push_back(std::move(new_attention));
    stages_.push_back(make_context_combine_stage(strategy));
    if (new_attention != nullptr) stages_.push_back(std::move(new_attention));
    stages_.push_back(make_merge_stage(all_heads));
  } else {
    stages_.push_back(make_combine_stage(strategy));
  }
  stages_.push_back(make_out_proj_stage(strategy, *query_));
}

StepShape StepPlan::shape(int rank, std::int64_t num_tokens) const {
  StepShape shape = shape_;
  shape.rank = rank;
  shape.num_tokens = num_tokens;
  return shape;
}

BufferPlan StepPlan::buffers(const StepShape& shape) const {
  BufferPlan plan;
  for (const auto& stage : stages_) stage->plan(shape, plan);
  return plan;
}

void enqueue_decode_step(const StepPlan& plan, const std::vector<StageContext>& ubatches) {
  const Lane& first = ubatches.front().lane;
  Runtime& runtime = first.rank.runtime;
  if (ubatches.size() > 1) runtime.record(first.forked, first.compute);
  for (std::size_t u = 1; u < ubatches.size(); ++u) {
    runtime.wait(ubatches[u].lane.compute, first.forked);
  }
  for (int layer = 0; layer < ubatches.front().shape.layers; ++layer) {
    for (const auto& stage : plan.stages()) {
      for (const StageContext& ubatch : ubatches) stage->enqueue(ubatch, layer);
    }
  }
  for (std::size_t u = 1; u < ubatches.size(); ++u) {
    const Lane& lane = ubatches[u].lane;
    runtime.record(lane.joined, lane.compute);
    runtime.wait(first.compute, lane.joined);
  }
}

}  // namespace dcp
