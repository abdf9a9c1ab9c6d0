// Two ubatches use the same bytes as their own.
#include "audit/rules/conflicts.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_cross_ubatch_aliases(const GraphScope& scope, Findings& found) {
  std::set<std::string> reported;
  for (const Conflict& conflict : scope.uses.conflicts()) {
    if (!is_across_ubatches(scope, conflict) || !is_of_one_ubatch(scope, conflict)) continue;
    Finding finding = finding_at("cross_ubatch_alias", scope, *conflict.first);
    if (!reported.insert(finding.buffer).second) continue;
    finding.why = "ubatches " + std::to_string(scope.node(*conflict.first).ubatch) + " and " +
                  std::to_string(scope.node(*conflict.second).ubatch) +
                  " run at the same time: " + why_unordered(scope, conflict);
    finding.advice = "give each ubatch a workspace of its own";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
