// Collectives of one communicator that no path orders: ranks may meet in different pairs.
#include <map>

#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_parallel_branches(const GraphScope& scope, Findings& found) {
  std::map<std::uint64_t, std::vector<int>> exchanges;  // by communicator
  for (std::size_t i = 0; i < scope.graph.nodes.size(); ++i) {
    const Node& node = scope.graph.nodes[i];
    if (!node.exchange.empty()) exchanges[node.communicator].push_back(static_cast<int>(i));
  }
  for (const auto& [communicator, nodes] : exchanges) {
    const auto pair = [&, &own = nodes]() -> std::pair<int, int> {
      for (std::size_t b = 1; b < own.size(); ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          if (!scope.uses.order().orders(own[a], own[b])) return {own[a], own[b]};
        }
      }
      return {-1, -1};
    }();
    if (pair.first < 0) continue;
    const Node& node = scope.graph.nodes[static_cast<std::size_t>(pair.first)];
    found.push_back(
        {.kind = "parallel_branches_one_comm",
         .graph = scope.graph.name,
         .node = node.op,
         .node_index = pair.first,
         .rank = scope.rank.rank,
         .ubatch = node.ubatch,
         .why = node_text(scope.graph, pair.first) + " and " + node_text(scope.graph, pair.second) +
                " use one communicator, and no path of edges orders them: ranks may "
                "run them in different orders",
         .advice = "give each branch a communicator of its own, or order the branches"});
  }
}

}  // namespace dcp::audit
