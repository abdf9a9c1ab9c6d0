#include "audit/audit.hpp"

#include <memory>
#include <set>

#include "audit/rule.hpp"

namespace dcp::audit {

namespace {

std::vector<std::string> graph_names(const Record& record) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const RankRecord& rank : record.ranks) {
    for (const Graph& graph : rank.graphs) {
      if (seen.insert(graph.name).second) names.push_back(graph.name);
    }
  }
  return names;
}

}  // namespace

std::vector<Finding> audit(const Record& record) {
  std::vector<MemoryMap> maps;
  for (const RankRecord& rank : record.ranks) maps.emplace_back(rank.allocations);
  Findings found;
  for (const std::string& name : graph_names(record)) {
    std::vector<std::unique_ptr<GraphUses>> uses;
    std::vector<GraphScope> scopes;
    for (std::size_t i = 0; i < record.ranks.size(); ++i) {
      for (const Graph& graph : record.ranks[i].graphs) {
        if (graph.name != name) continue;
        uses.push_back(std::make_unique<GraphUses>(graph, maps[i]));
        scopes.push_back({record.ranks[i], graph, *uses.back(), maps[i]});
        break;
      }
    }
    for (const Rule& rule : all_rules()) {
      for (const GraphScope& scope : scopes) {
        if (rule.of_graph != nullptr) rule.of_graph(scope, found);
        if (rule.of_memory != nullptr) rule.of_memory(scope, found);
      }
      if (rule.of_ranks != nullptr) rule.of_ranks(scopes, found);
    }
  }
  return found;
}

}  // namespace dcp::audit
