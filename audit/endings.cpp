#include "audit/endings.hpp"

#include <algorithm>

namespace dcp::audit {

std::vector<EndedUse> ended_uses(const GraphScope& scope, Ending ending) {
  std::vector<EndedUse> found;
  for (const std::uint32_t id : scope.uses.allocations()) {
    const Allocation& allocation = scope.allocation(id);
    if (allocation.ending != ending) continue;
    EndedUse ended{.first = nullptr, .num_uses = 0, .allocation = &allocation};
    int last_node = -1;
    for (const Use& use : scope.uses.all()) {
      if (use.allocation != id || use.node == last_node) continue;
      if (!allocation.is_alive_at(scope.node(use).captured_at)) continue;
      if (ended.first == nullptr) ended.first = &use;
      ++ended.num_uses;
      last_node = use.node;
    }
    if (ended.first != nullptr) found.push_back(ended);
  }
  return found;
}

const Allocation* replacement_of(const GraphScope& scope, const Allocation& allocation) {
  for (const Binding& captured : scope.graph.bindings) {
    if (captured.allocation != allocation.id) continue;
    for (const Binding& now : scope.rank.bindings) {
      const Allocation& other = scope.allocation(now.allocation);
      if (other.name != allocation.name || now.ubatch != captured.ubatch) continue;
      if (other.id != allocation.id) return &other;
    }
  }
  return nullptr;
}

bool is_shared_scratch(const GraphScope& scope, const Allocation& allocation) {
  const auto means = [&](const Graph& graph) {
    return std::any_of(graph.bindings.begin(), graph.bindings.end(), [&](const Binding& binding) {
      return binding.allocation == allocation.id && binding.role == Role::kScratch;
    });
  };
  return std::count_if(scope.rank.graphs.begin(), scope.rank.graphs.end(), means) > 1;
}

}  // namespace dcp::audit
