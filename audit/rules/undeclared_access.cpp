// An argument points into memory that the op did not declare, or the op declared memory that none
// of its arguments points into: what else is said of the node may be wrong.
#include <algorithm>

#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

// An access of no bytes is one that the op knows and does not make.
bool names(const Access& access, const Allocation& allocation) {
  const Address last = access.end() - (access.size_bytes > 0 ? 1 : 0);
  return access.address < allocation.end() && allocation.address <= last;
}

bool points_into(std::uint64_t word, const Allocation& allocation) {
  return allocation.address <= word && word < allocation.end();
}

}  // namespace

void find_undeclared_accesses(const GraphScope& scope, Findings& found) {
  for (std::size_t i = 0; i < scope.graph.nodes.size(); ++i) {
    const Node& node = scope.graph.nodes[i];
    for (std::size_t word = 0; word < node.words.size(); ++word) {
      const Allocation* held = scope.memory.meant_by(node.words[word], node.captured_at);
      if (held == nullptr || !held->is_alive_at(node.captured_at)) continue;
      const bool is_declared =
          std::any_of(node.accesses.begin(), node.accesses.end(),
                      [&](const Access& access) { return names(access, *held); });
      if (is_declared) continue;
      const Access argument{.address = node.words[word],
                            .argument = "byte " + std::to_string(word * sizeof(word))};
      Finding finding =
          finding_at("undeclared_access", scope,
                     {.node = static_cast<int>(i), .access = &argument, .allocation = held->id});
      finding.why = node_text(scope.graph, static_cast<int>(i)) + " holds a pointer into " +
                    buffer_text(*held) + " and declares no access to it";
      finding.advice = "declare every byte that the op may touch";
      found.push_back(std::move(finding));
    }
  }
  for (const Use& use : scope.uses.all()) {
    const Node& node = scope.node(use);
    if (!use.allocation || node.words.empty() || !use.access->is_declared) continue;
    const Allocation& allocation = scope.allocation(*use.allocation);
    const bool is_held = std::any_of(node.words.begin(), node.words.end(), [&](std::uint64_t word) {
      return points_into(word, allocation);
    });
    if (is_held) continue;
    Finding finding = finding_at("undeclared_access", scope, use);
    finding.why = node_text(scope.graph, use.node) + " declares an access to " +
                  buffer_text(allocation) + ", and none of its arguments points there";
    finding.advice = "declare what the arguments point to";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
