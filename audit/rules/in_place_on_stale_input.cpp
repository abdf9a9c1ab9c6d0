// A node changes bytes in place that nothing in the graph writes anew: the next launch changes its
// own result once more.
#include "audit/coverage.hpp"
#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_in_place_on_stale_inputs(const GraphScope& scope, Findings& found) {
  for (const UncoveredRead& read : uncovered_reads(scope)) {
    if (!read.is_in_place) continue;
    const Access& access = *read.use->access;
    if (is_explained_by_missing(scope.graph, access.address, access.end())) continue;
    Finding finding = finding_at("in_place_on_stale_input", scope, *read.use);
    finding.why = node_text(scope.graph, read.use->node) + " changes " + finding.buffer +
                  " in place, and no node before it writes what it reads there: a second launch " +
                  "works on the result of the first";
    finding.advice = "write the result to another buffer, or write the input in the same graph";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
