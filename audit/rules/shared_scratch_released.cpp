// Scratch of several graphs was given back, and nothing took its place.
#include "audit/describe.hpp"
#include "audit/endings.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_released_scratch(const GraphScope& scope, Findings& found) {
  for (const EndedUse& ended : ended_uses(scope, Ending::kFreed)) {
    if (ended.allocation->is_host || replacement_of(scope, *ended.allocation) != nullptr) continue;
    if (!is_shared_scratch(scope, *ended.allocation)) continue;
    Finding finding = finding_at("shared_scratch_released", scope, *ended.first);
    finding.buffer = ended.allocation->name;
    finding.why = buffer_text(*ended.allocation) + ", " + life_story(*ended.allocation) +
                  ", is scratch of several graphs, of which " + scope.graph.name +
                  " may still be launched";
    finding.advice = "give shared scratch back after the last graph that was captured with it";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
