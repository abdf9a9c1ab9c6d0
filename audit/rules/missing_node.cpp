// An operation of the step is not in the graph: it was left out, or ran on a stream that did not
// capture.
#include <algorithm>
#include <set>

#include "audit/coverage.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

void report(const GraphScope& scope, const std::vector<const Node*>& missing, Findings& found) {
  std::set<std::string> reported;
  for (const Node* node : missing) {
    if (!reported.insert(node->op).second) continue;
    const auto count = std::count_if(missing.begin(), missing.end(),
                                     [&](const Node* other) { return other->op == node->op; });
    found.push_back({.kind = "missing_node",
                     .graph = scope.graph.name,
                     .node = node->op,
                     .rank = scope.rank.rank,
                     .ubatch = node->ubatch,
                     .why = "the step has " + node->op + " on stream " + node->stream +
                            ", and the graph lacks " + std::to_string(count) + " of them; it has " +
                            std::to_string(scope.graph.nodes.size()) + " of " +
                            std::to_string(scope.graph.plan.size()) + " operations",
                     .advice = "enqueue the operation on a stream that captures, forked from the "
                               "capture's origin"});
    if (scope.graph.nodes.empty()) return;  // one cause: nothing was captured
  }
}

}  // namespace

// An exchange that only some ranks lack is rank_divergence.
void find_missing_nodes(std::span<const GraphScope> ranks, Findings& found) {
  std::vector<std::vector<const Node*>> missing;
  std::size_t fewest = SIZE_MAX;
  for (const GraphScope& scope : ranks) {
    missing.push_back(missing_nodes(scope.graph));
    const auto exchanges = static_cast<std::size_t>(
        std::count_if(missing.back().begin(), missing.back().end(),
                      [](const Node* node) { return !node->exchange.empty(); }));
    fewest = std::min(fewest, exchanges);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (fewest == 0) {
      std::erase_if(missing[i], [](const Node* node) { return !node->exchange.empty(); });
    }
    report(ranks[i], missing[i], found);
  }
}

}  // namespace dcp::audit
