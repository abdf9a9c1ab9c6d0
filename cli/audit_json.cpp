#include "cli/audit_json.hpp"

#include "cli/run_json.hpp"

namespace dcp {

namespace {

using Json = nlohmann::ordered_json;

Json buffer_json(const BakedBuffer& buffer) {
  const audit::Allocation& allocation = *buffer.allocation;
  return {{"name", allocation.name},
          {"generation", allocation.generation},
          {"owner", allocation.owner},
          {"address", allocation.address},
          {"size_bytes", allocation.size_bytes},
          {"role", buffer.binding == nullptr ? "" : role_text(buffer.binding->role)},
          {"live", allocation.ending == audit::Ending::kLive},
          {"readers", buffer.readers},
          {"writers", buffer.writers}};
}

Json graph_json(const ShownGraph& shown) {
  const audit::RankRecord& rank = *shown.rank;
  const audit::Graph& graph = *shown.graph;
  const audit::MemoryMap memory(rank.allocations);
  const audit::GraphUses uses(graph, memory);
  Json json = {{"name", graph.name},
               {"after_step", shown.step < 0 ? Json(nullptr) : Json(shown.step)},
               {"rank", rank.rank},
               {"rows", graph.rows}};
  json["nodes"] = Json::array();
  for (const audit::Node& node : graph.nodes) {
    Json edges = Json::array();
    for (const audit::Dependency& dependency : node.dependencies) edges.push_back(dependency.node);
    json["nodes"].push_back({{"op", node.op},
                             {"stream", node.stream},
                             {"ubatch", node.ubatch},
                             {"dependencies", std::move(edges)},
                             {"host_words", host_words(rank, node)}});
  }
  json["buffers"] = Json::array();
  for (const BakedBuffer& buffer : baked_buffers(rank, uses)) {
    json["buffers"].push_back(buffer_json(buffer));
  }
  return json;
}

}  // namespace

Json audited_json(const Audited& audited) {
  Json json = {{"file", audited.file},
               {"strategy", audited.strategy},
               {"error", audited.bad_input.empty() ? Json(nullptr) : Json(audited.bad_input)}};
  json["graphs"] = Json::array();
  for (const ShownGraph& shown : shown_graphs(audited, true)) {
    json["graphs"].push_back(graph_json(shown));
  }
  json["hazards"] = Json::array();
  for (const AuditedFinding& found : audited.findings) {
    json["hazards"].push_back(hazard_json(found.finding));
    json["hazards"].back()["ranks"] = found.ranks;
    json["hazards"].back()["step"] = found.step < 0 ? Json(nullptr) : Json(found.step);
  }
  return json;
}

}  // namespace dcp
