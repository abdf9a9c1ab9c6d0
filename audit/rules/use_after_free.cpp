// A node was captured with a pointer into memory that had been given back before.
#include <set>

#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_uses_after_free(const GraphScope& scope, Findings& found) {
  std::set<std::uint32_t> reported;
  for (const Use& use : scope.uses.all()) {
    if (!use.allocation) continue;
    const Allocation& allocation = scope.allocation(*use.allocation);
    if (allocation.is_alive_at(scope.node(use).captured_at)) continue;
    if (!reported.insert(allocation.id).second) continue;
    Finding finding = finding_at("use_after_free", scope, use);
    finding.why = node_text(scope.graph, use.node) + " was captured with a pointer to " +
                  buffer_text(allocation) + ", " + life_story(allocation) + ", before that";
    finding.advice = "enqueue the node before the buffer is given back, or give it one that lives";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
