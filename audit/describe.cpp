#include "audit/describe.hpp"

namespace dcp::audit {

namespace {

std::string step_text(int step) {
  return step < 0 ? "before the first step" : "in step " + std::to_string(step);
}

std::string ending_text(Ending ending) {
  switch (ending) {
    case Ending::kLive:
      return "still there";
    case Ending::kFreed:
      return "given back";
    case Ending::kToPool:
      return "given back to its pool";
    case Ending::kRemapped:
      return "given other memory";
  }
  return "?";
}

}  // namespace

std::string node_text(const Graph& graph, int node) {
  const Node& named = graph.nodes[static_cast<std::size_t>(node)];
  return named.op + " (node " + std::to_string(node) +
         (named.stream.empty() ? "" : ", stream " + named.stream) + ")";
}

std::string buffer_text(const Allocation& allocation) {
  return allocation.name + "@" + std::to_string(allocation.generation) + " (" +
         std::to_string(allocation.size_bytes) + " bytes)";
}

std::string life_story(const Allocation& allocation) {
  std::string text = "allocated " + step_text(allocation.born_in_step);
  if (allocation.ending == Ending::kLive) return text;
  return text + ", " + ending_text(allocation.ending) + " " + step_text(allocation.died_in_step);
}

Finding finding_at(std::string_view kind, const GraphScope& scope, const Use& use) {
  const Node& node = scope.node(use);
  Finding finding{.kind = std::string(kind),
                  .graph = scope.graph.name,
                  .node = node.op,
                  .node_index = use.node,
                  .argument = use.access->argument,
                  .rank = scope.rank.rank,
                  .ubatch = node.ubatch};
  if (use.allocation) {
    const Allocation& allocation = scope.allocation(*use.allocation);
    const Binding* part = scope.uses.binding_of(use);
    finding.buffer = part != nullptr ? part->name : allocation.name;
    finding.generation = allocation.generation;
  }
  return finding;
}

}  // namespace dcp::audit
