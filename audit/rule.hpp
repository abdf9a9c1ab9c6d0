// A rule finds hazards of one kind. One file each in audit/rules/, one line each in registry.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "audit/finding.hpp"
#include "audit/graph_uses.hpp"
#include "audit/memory_map.hpp"
#include "audit/record.hpp"

namespace dcp::audit {

// A graph of a rank, and what was derived from both.
struct GraphScope {
  const RankRecord& rank;
  const Graph& graph;
  const GraphUses& uses;
  const MemoryMap& memory;

  const Allocation& allocation(std::uint32_t id) const { return rank.allocations[id]; }
  const Node& node(const Use& use) const { return graph.nodes[static_cast<std::size_t>(use.node)]; }
};

using Findings = std::vector<Finding>;

struct Rule {
  std::string_view name;

  // What the graph itself proves; null where the rule has no such part, as below. Asked once, when
  // the graph is captured.
  void (*of_graph)(const GraphScope& scope, Findings& found) = nullptr;

  // What the graph and the allocations as they are now prove. Asked whenever those changed.
  void (*of_memory)(const GraphScope& scope, Findings& found) = nullptr;

  // What one graph on all ranks proves, in the order of the ranks. Asked once.
  void (*of_ranks)(std::span<const GraphScope> ranks, Findings& found) = nullptr;
};

std::span<const Rule> all_rules();

}  // namespace dcp::audit
