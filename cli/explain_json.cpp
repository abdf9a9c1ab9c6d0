#include "cli/explain_json.hpp"

#include "cli/explain_slots.hpp"

namespace dcp {

namespace {

using Json = nlohmann::ordered_json;

template <class Items, class ToJson>
Json list(const Items& items, const ToJson& to_json) {
  Json json = Json::array();
  for (const auto& item : items) json.push_back(to_json(item));
  return json;
}

Json error_json(const std::optional<ErrorReport>& error) {
  if (!error) return nullptr;
  return {{"kind", error->kind}, {"why", error->why}};
}

Json row_json(const ExplainedRow& row) {
  if (row.request < 0) return {{"request", nullptr}, {"position", nullptr}, {"keys", nullptr}};
  return {{"request", row.request}, {"position", row.position}, {"keys", row.keys}};
}

Json batch_json(const ExplainedBatch& batch) {
  Json json = {{"name", batch.name}, {"error", error_json(batch.error)}};
  if (batch.error) return json;
  json["seq_lens"] = batch.layout.seq_lens;
  json["query_start_loc"] = batch.layout.query_start_loc;
  json["local_seq_lens"] = batch.layout.local_seq_lens;
  json["rows"] = list(batch.rows, row_json);
  return json;
}

Json ubatch_json(const Ubatch& ubatch) {
  return {{"first_row", ubatch.first_row}, {"num_rows", ubatch.num_rows}};
}

Json buffer_json(const ExplainedBuffer& buffer) {
  return {{"name", buffer.name},   {"shape", buffer.shape},
          {"dtype", buffer.dtype}, {"size_bytes", buffer.size_bytes},
          {"count", buffer.num},   {"lives_in", buffer.lives}};
}

Json op_json(const ExplainedOp& op) {
  return {{"name", op.name},
          {"stream", op.stream},
          {"count", op.count},
          {"egress_bytes", op.egress_bytes}};
}

Json exchange_json(const ExplainedExchange& exchange) {
  return {{"epoch", exchange.epoch},
          {"per_replay", exchange.per_replay},
          {"num_slots", exchange.num_slots},
          {"slots_of_replay_1", slots_of_replay(exchange, 0)},
          {"slots_of_replay_2", slots_of_replay(exchange, exchange.per_replay)}};
}

Json graph_json(const ExplainedGraph& graph) {
  return {{"name", graph.name},
          {"rows", graph.rows},
          {"ubatches", list(graph.ubatches, ubatch_json)},
          {"num_edges", graph.num_edges},
          {"query_egress_bytes", graph.query_bytes},
          {"combine_egress_bytes", graph.combine_bytes},
          {"kv_gather_egress_bytes", graph.kv_bytes},
          {"ops", list(graph.ops, op_json)},
          {"exchanges", list(graph.exchanges, exchange_json)},
          {"buffers", list(graph.buffers, buffer_json)}};
}

Json step_json(const ExplainedStep& step) {
  return {{"index", step.index},
          {"verb", step.verb},
          {"what", step.what},
          {"batch", step.batch},
          {"graph", step.graph},
          {"rows", step.rows},
          {"ubatches", list(step.ubatches, ubatch_json)},
          {"error", error_json(step.error)}};
}

Json strategy_json(const ExplainedStrategy& strategy) {
  return {{"name", strategy.name},
          {"keeps_all_heads", strategy.keeps_all_heads},
          {"error", error_json(strategy.error)},
          {"inputs", list(strategy.inputs, buffer_json)},
          {"graphs", list(strategy.graphs, graph_json)},
          {"steps", list(strategy.steps, step_json)}};
}

Json verdict_json(const LegalityVerdict& verdict) {
  return {{"rule", verdict.rule}, {"holds", verdict.holds}, {"why", verdict.why}};
}

}  // namespace

Json explanation_json(const Scenario& scenario, const Explanation& explanation) {
  return {{"file", scenario.file},
          {"about", scenario.about},
          {"world_size", scenario.world_size},
          {"tensor_parallel_size", scenario.tensor_parallel_size},
          {"interleave", scenario.interleave},
          {"num_heads", scenario.group_num_heads()},
          {"layers", scenario.layers},
          {"aliases", scenario.aliases_used},
          {"max_num_tokens", explanation.max_num_tokens},
          {"num_blocks", explanation.num_blocks},
          {"vllm", list(explanation.legality, verdict_json)},
          {"batches", list(explanation.batches, batch_json)},
          {"strategies", list(explanation.strategies, strategy_json)}};
}

}  // namespace dcp
