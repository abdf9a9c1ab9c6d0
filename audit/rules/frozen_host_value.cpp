// A number that the capture froze is not the one that the step would pass now.
#include <set>

#include "audit/coverage.hpp"
#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

// Arguments of 32 bits lie two in a word.
std::string difference_text(std::uint64_t captured, std::uint64_t now) {
  const std::uint64_t low = 0xFFFFFFFFu;
  if (captured >> 32 == now >> 32) {
    captured &= low;
    now &= low;
  } else if ((captured & low) == (now & low)) {
    captured >>= 32;
    now >>= 32;
  }
  return std::to_string(captured) + ", the step would pass " + std::to_string(now);
}

}  // namespace

void find_frozen_host_values(const GraphScope& scope, Findings& found) {
  const auto nodes = planned_nodes(scope.graph);
  std::set<std::string> reported;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] < 0) continue;
    const Node& captured = scope.graph.nodes[static_cast<std::size_t>(nodes[i])];
    const Node& planned = scope.graph.plan[i];
    if (!captured.exchange.empty() || captured.words.size() != planned.words.size()) continue;
    for (std::size_t word = 0; word < captured.words.size(); ++word) {
      const std::uint64_t was = captured.words[word];
      const std::uint64_t is = planned.words[word];
      if (was == is || scope.memory.meant_by(was, kNever - 1) != nullptr ||
          scope.memory.meant_by(is, kNever - 1) != nullptr) {
        continue;  // a pointer is another rule's
      }
      if (!reported.insert(captured.op).second) break;
      found.push_back({.kind = "frozen_host_value",
                       .graph = scope.graph.name,
                       .node = captured.op,
                       .node_index = nodes[i],
                       .argument = "byte " + std::to_string(word * sizeof(word)),
                       .rank = scope.rank.rank,
                       .ubatch = captured.ubatch,
                       .why = node_text(scope.graph, nodes[i]) + " was captured with " +
                              difference_text(was, is),
                       .advice = "read what changes between steps from device memory, or pass a "
                                 "bound that holds for every batch"});
      break;
    }
  }
}

}  // namespace dcp::audit
