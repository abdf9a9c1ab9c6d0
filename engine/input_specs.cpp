#include "engine/input_specs.hpp"

namespace dcp {

namespace {

InputSpec of_dtype(std::string_view input, DType dtype, std::vector<std::int64_t> shape) {
  return {input, std::move(shape), name(dtype), size_bytes(dtype)};
}

InputSpec of_int32(std::string_view input, std::vector<std::int64_t> shape) {
  return {input, std::move(shape), "int32", sizeof(std::int32_t)};
}

}  // namespace

std::vector<InputSpec> data_specs(const Scenario& scenario, const StepPlan& plan,
                                  const Capacity& capacity) {
  const std::int64_t rows = capacity.max_num_tokens;
  const StepShape shape = plan.shape(0, rows);
  const std::int64_t slots = capacity.num_blocks * scenario.kv.block_size;
  std::vector<InputSpec> specs = {
      of_dtype("q", shape.dtype, {rows, plan.query().num_input_heads(shape), shape.qk_head_dim}),
      of_dtype("new_kv", shape.dtype, {shape.layers, rows, shape.kv_row_dim}),
      of_dtype("kv_cache", shape.kv_dtype, {shape.layers, slots, shape.kv_row_dim}),
  };
  if (scenario.data.kind == DataKind::kGiven) {
    specs.push_back(
        of_dtype("given_out", shape.dtype, {rows, shape.padded_num_heads, shape.head_dim}));
    specs.push_back(of_dtype("given_lse", shape.lse.dtype, {rows, shape.padded_num_heads}));
  }
  if (scenario.kv_gather) {
    const KvGatherSpec& gather = *scenario.kv_gather;
    specs.push_back(of_dtype(
        "kv_chunk", gather.dtype,
        {scenario.graph.ubatches, shape.layers, gather.tokens / scenario.world_size, gather.dim}));
  }
  specs.push_back(of_int32("empty_row_mode", {1}));
  return specs;
}

MetadataCapacity metadata_capacity(const Scenario& scenario, const Capacity& capacity) {
  return {.rows = capacity.max_num_tokens,
          .pages_per_request = capacity.pages_per_request,
          .new_tokens = scenario.attention_split == AttentionSplit::kContextThenNew};
}

std::vector<InputSpec> metadata_specs(const MetadataCapacity& capacity) {
  const std::int64_t rows = capacity.rows;
  std::vector<InputSpec> specs = {
      of_int32("query_start_loc", {rows + 1}),
      of_int32("seq_lens", {rows}),
      of_int32("causal_bounds", {rows}),
      {"empty_ranks", {rows}, "uint64", sizeof(std::uint64_t)},
      of_int32("block_table", {rows, capacity.pages_per_request}),
      {"slot_mapping", {rows}, "int64", sizeof(std::int64_t)},
  };
  if (!capacity.new_tokens) return specs;
  for (const char* name : {"new_seq_lens", "new_bounds", "new_first_rows"}) {
    specs.push_back(of_int32(name, {rows}));
  }
  return specs;
}

}  // namespace dcp
