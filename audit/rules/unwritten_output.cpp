// No node writes an output of the graph: whoever reads it finds what an earlier step left.
#include "audit/coverage.hpp"
#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

void find_unwritten_outputs(const GraphScope& scope, Findings& found) {
  for (const Binding& binding : scope.graph.bindings) {
    if (binding.role != Role::kOutput || binding.size_bytes == 0) continue;
    const Address end = binding.address + binding.size_bytes;
    Address first = binding.address;
    const std::uint64_t missing = unwritten_bytes(scope, binding.address, end, first);
    if (missing == 0 || is_explained_by_missing(scope.graph, binding.address, end)) continue;
    Finding finding{.kind = "unwritten_output",
                    .graph = scope.graph.name,
                    .buffer = binding.name,
                    .generation = scope.allocation(binding.allocation).generation,
                    .rank = scope.rank.rank,
                    .ubatch = binding.ubatch};
    finding.why = "no node writes " + std::to_string(missing) + " of the " +
                  std::to_string(binding.size_bytes) + " bytes of " + binding.name +
                  ", from byte " + std::to_string(first - binding.address) + " on";
    finding.advice = "let the graph write all of its output, padded rows too";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
