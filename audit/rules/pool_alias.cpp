// A buffer that somebody keeps lies on a block of a pool that a graph uses for its own temporaries.
#include <set>

#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

// Kept for longer than a launch: what a graph names as its own scratch it writes anew each time.
bool is_kept(const GraphScope& scope, const Allocation& allocation) {
  for (const Binding& binding : scope.rank.bindings) {
    if (binding.allocation == allocation.id) return true;
  }
  for (const Graph& graph : scope.rank.graphs) {
    for (const Binding& binding : graph.bindings) {
      if (binding.allocation == allocation.id) return false;
    }
  }
  return true;
}

}  // namespace

void find_pool_aliases(const GraphScope& scope, Findings& found) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> reported;
  for (const Use& use : scope.uses.all()) {
    if (!use.allocation || !use.access->writes()) continue;
    const Allocation& meant = scope.allocation(*use.allocation);
    if (meant.ending != Ending::kToPool) continue;
    for (const Allocation* other :
         scope.memory.overlapping(use.access->address, use.access->end())) {
      if (other->id == meant.id || other->ending != Ending::kLive) continue;
      if (!is_kept(scope, *other) || !reported.insert({meant.id, other->id}).second) continue;
      Finding finding = finding_at("pool_alias", scope, use);
      finding.buffer = other->name;
      finding.generation = other->generation;
      finding.why = buffer_text(*other) + " of " + other->owner + ", " + life_story(*other) +
                    ", lies on the block of " + buffer_text(meant) + ", which " +
                    node_text(scope.graph, use.node) + " writes at each launch";
      finding.advice = "allocate what outlives a launch before the capture, outside of its pool";
      found.push_back(std::move(finding));
    }
  }
}

}  // namespace dcp::audit
