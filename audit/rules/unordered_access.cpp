// Two nodes touch the same bytes, one writes, and no path of edges orders them.
#include "audit/rules/conflicts.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_unordered_accesses(const GraphScope& scope, Findings& found) {
  ReportedConflicts reported;
  for (const Conflict& conflict : scope.uses.conflicts()) {
    if (is_across_ubatches(scope, conflict) && is_of_one_ubatch(scope, conflict)) continue;
    if (!is_new(scope, conflict, reported)) continue;
    Finding finding = finding_at("unordered_access", scope, *conflict.first);
    finding.why = why_unordered(scope, conflict);
    const auto first = conflict.first->allocation;
    const auto second = conflict.second->allocation;
    if (first && second && first != second) {
      finding.why += ": the block of " + buffer_text(scope.allocation(*first)) +
                     " was handed out again as " + buffer_text(scope.allocation(*second));
    }
    finding.advice = "record an event after the first and let the second's stream wait for it";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
