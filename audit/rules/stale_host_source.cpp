// A captured copy reads host memory that was given back since.
#include "audit/describe.hpp"
#include "audit/endings.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_stale_host_sources(const GraphScope& scope, Findings& found) {
  for (const EndedUse& ended : ended_uses(scope, Ending::kFreed)) {
    if (!ended.allocation->is_host) continue;
    Finding finding = finding_at("stale_host_source", scope, *ended.first);
    finding.buffer = ended.allocation->name;
    finding.why = node_text(scope.graph, ended.first->node) +
                  " reads the host again at each launch, from " + buffer_text(*ended.allocation) +
                  ", " + life_story(*ended.allocation);
    finding.advice = "let the graph own the pinned block, or copy before the launch instead";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
