// A node reads more of a buffer than the nodes before it have written.
#include <set>

#include "audit/coverage.hpp"
#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_unwritten_row_reads(const GraphScope& scope, Findings& found) {
  std::set<std::pair<std::string, std::string>> reported;
  for (const UncoveredRead& read : uncovered_reads(scope)) {
    const Access& access = *read.use->access;
    if (read.is_in_place || read.num_missing >= access.size_bytes) continue;
    if (is_explained_by_missing(scope.graph, access.address, access.end())) continue;
    Finding finding = finding_at("unwritten_row_read", scope, *read.use);
    if (!reported.insert({finding.node, finding.buffer}).second) continue;
    finding.why = node_text(scope.graph, read.use->node) + " reads " +
                  std::to_string(access.size_bytes) + " bytes of " + finding.buffer +
                  ", of which " + std::to_string(read.num_missing) + ", from byte " +
                  std::to_string(read.first - access.address) + " on, were not written before it";
    finding.advice = "let the stage before it write every row, padding and empty ones too";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
