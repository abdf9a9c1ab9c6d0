// A graph holds the address of memory that was given back after the capture.
#include "audit/describe.hpp"
#include "audit/endings.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_stale_pointers(const GraphScope& scope, Findings& found) {
  for (const EndedUse& ended : ended_uses(scope, Ending::kFreed)) {
    const Allocation* replacement = replacement_of(scope, *ended.allocation);
    if (ended.allocation->is_host) continue;  // stale_host_source
    if (replacement == nullptr && is_shared_scratch(scope, *ended.allocation)) continue;
    Finding finding = finding_at("stale_pointer", scope, *ended.first);
    finding.buffer = ended.allocation->name;
    finding.why = node_text(scope.graph, ended.first->node) + " and " +
                  std::to_string(ended.num_uses - 1) + " more nodes hold " +
                  buffer_text(*ended.allocation) + ", " + life_story(*ended.allocation);
    if (replacement != nullptr) {
      finding.why += "; steps now use generation " + std::to_string(replacement->generation) +
                     " of " + std::to_string(replacement->size_bytes) + " bytes";
    }
    finding.advice =
        "keep the buffer as long as the graph, size it before the first capture, or "
        "capture " +
        scope.graph.name + " again";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
