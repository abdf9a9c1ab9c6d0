// A node touches bytes beyond the end of the buffer that its argument points into.
#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_reads_past_end(const GraphScope& scope, Findings& found) {
  for (const Use& use : scope.uses.all()) {
    if (!use.allocation || !use.access->is_declared) continue;
    const Allocation& allocation = scope.allocation(*use.allocation);
    if (use.access->end() <= allocation.end()) continue;
    Finding finding = finding_at("read_past_end", scope, use);
    finding.why = node_text(scope.graph, use.node) + " touches " +
                  std::to_string(use.access->end() - allocation.end()) + " bytes past the end of " +
                  buffer_text(allocation) + ", from byte " +
                  std::to_string(use.access->address - allocation.address) + " on";
    finding.advice = "allocate the whole tile, or let the kernel stop at the end";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
