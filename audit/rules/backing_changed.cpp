// The address is the captured one, but other memory lies behind it.
#include <algorithm>

#include "audit/describe.hpp"
#include "audit/endings.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

// What the host writes before every launch, and what is written before it is read, does not miss
// what lay behind the address.
bool keeps_contents(Role role) { return role == Role::kState || role == Role::kUnknown; }

// Peers and libraries know the memory of a registered buffer, not its address.
bool is_exchanged(const GraphScope& scope, const Allocation& allocation) {
  return std::any_of(scope.uses.all().begin(), scope.uses.all().end(), [&](const Use& use) {
    return use.allocation == allocation.id && !scope.node(use).exchange.empty();
  });
}

}  // namespace

void find_changed_backings(const GraphScope& scope, Findings& found) {
  for (const EndedUse& ended : ended_uses(scope, Ending::kRemapped)) {
    const Binding* binding = scope.uses.binding_of(ended.allocation->id);
    const bool keeps = binding == nullptr || keeps_contents(binding->role);
    if (!keeps && !is_exchanged(scope, *ended.allocation)) continue;
    Finding finding = finding_at("backing_changed", scope, *ended.first);
    finding.buffer = ended.allocation->name;
    finding.why = node_text(scope.graph, ended.first->node) + " holds the address of " +
                  buffer_text(*ended.allocation) + ", " + life_story(*ended.allocation) +
                  ": what it held, and what peers and libraries registered of it, is gone";
    finding.advice = "fill and register the buffer again before a launch, or capture again";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
