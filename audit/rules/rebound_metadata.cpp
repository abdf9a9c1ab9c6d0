// The batch is loaded into another buffer than the graph reads.
#include <algorithm>

#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_rebound_metadata(const GraphScope& scope, Findings& found) {
  for (const Binding& captured : scope.graph.bindings) {
    if (captured.role != Role::kInput && captured.role != Role::kMetadata &&
        captured.role != Role::kState) {
      continue;
    }
    const auto live = std::find_if(
        scope.rank.bindings.begin(), scope.rank.bindings.end(), [&](const Binding& now) {
          return now.name == captured.name && now.ubatch == captured.ubatch;
        });
    if (live == scope.rank.bindings.end() || live->allocation == captured.allocation) continue;
    const Allocation& old = scope.allocation(captured.allocation);
    if (old.ending != Ending::kLive) continue;  // stale_pointer, backing_changed
    const auto use =
        std::find_if(scope.uses.all().begin(), scope.uses.all().end(),
                     [&](const Use& each) { return each.allocation == captured.allocation; });
    if (use == scope.uses.all().end()) continue;
    const Allocation& fresh = scope.allocation(live->allocation);
    Finding finding = finding_at("rebound_metadata", scope, *use);
    finding.why = node_text(scope.graph, use->node) + " reads " + buffer_text(old) +
                  ", batches are loaded into " + buffer_text(fresh) + ", " + life_story(fresh);
    finding.advice = "copy each batch into the buffer that was captured, or capture again";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
