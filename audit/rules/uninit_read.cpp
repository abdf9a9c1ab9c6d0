// A node reads scratch that nothing in the graph has written before it.
#include <set>

#include "audit/coverage.hpp"
#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_uninit_reads(const GraphScope& scope, Findings& found) {
  std::set<std::pair<std::string, std::string>> reported;
  for (const UncoveredRead& read : uncovered_reads(scope)) {
    const Access& access = *read.use->access;
    if (read.is_in_place || read.num_missing < access.size_bytes) continue;
    if (is_explained_by_missing(scope.graph, access.address, access.end())) continue;
    Finding finding = finding_at("uninit_read", scope, *read.use);
    if (!reported.insert({finding.node, finding.buffer}).second) continue;
    finding.why = node_text(scope.graph, read.use->node) + " reads " +
                  std::to_string(access.size_bytes) + " bytes of " + finding.buffer +
                  ", and no node before it writes any of them";
    finding.advice = "write the buffer in the graph, or load it before each launch";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
