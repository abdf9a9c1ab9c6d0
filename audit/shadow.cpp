#include "audit/shadow.hpp"

#include <algorithm>
#include <set>

#include "audit/memory_map.hpp"

namespace dcp::audit {

namespace {

// A word that is not the same in both captures.
struct MovedWord {
  const Node& node;
  int index;  // of the node
  std::size_t word;
  std::uint64_t value;
  std::uint64_t in_shadow;
};

// The allocation that a word points into in both captures, by name and at the same place; else
// null.
const Allocation* pointed_at(const MovedWord& moved, const MemoryMap& memory,
                             const MemoryMap& in_shadow, Moment shadow_moment) {
  const Allocation* here = memory.meant_by(moved.value, moved.node.captured_at);
  const Allocation* there = in_shadow.meant_by(moved.in_shadow, shadow_moment);
  const bool same = here != nullptr && there != nullptr && here->name == there->name &&
                    moved.value - here->address == moved.in_shadow - there->address;
  return same ? here : nullptr;
}

Finding finding_of(std::string_view kind, const Capture& capture, const MovedWord& moved) {
  return {.kind = std::string(kind),
          .graph = capture.graph.name,
          .node = moved.node.op,
          .node_index = moved.index,
          .argument = "byte " + std::to_string(moved.word * sizeof(moved.value)),
          .rank = capture.rank.rank,
          .ubatch = moved.node.ubatch};
}

Finding frozen_value(const Capture& capture, const MovedWord& moved) {
  Finding finding = finding_of("frozen_host_value", capture, moved);
  finding.why = moved.node.op + " was captured with " + std::to_string(moved.value) +
                ", and with " + std::to_string(moved.in_shadow) + " under other host values";
  finding.advice = "read what changes between steps from device memory";
  return finding;
}

bool declares(const Node& node, const Allocation& allocation) {
  return std::any_of(node.accesses.begin(), node.accesses.end(), [&](const Access& access) {
    const Address last = access.end() - (access.size_bytes > 0 ? 1 : 0);
    return access.address < allocation.end() && allocation.address <= last;
  });
}

Finding undeclared_pointer(const Capture& capture, const MovedWord& moved,
                           const Allocation& allocation) {
  Finding finding = finding_of("undeclared_access", capture, moved);
  finding.buffer = allocation.name;
  finding.generation = allocation.generation;
  finding.why = moved.node.op + " holds a word that moves with " + allocation.name +
                ", which it does not declare";
  finding.advice = "declare every byte that the op may touch";
  return finding;
}

bool have_same_ops(const Graph& a, const Graph& b) {
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                    [](const Node& x, const Node& y) {
                      return x.op == y.op && x.words.size() == y.words.size();
                    });
}

}  // namespace

std::vector<Finding> compare_captures(const Capture& capture, const Capture& shadow) {
  if (!have_same_ops(capture.graph, shadow.graph)) {
    return {{.kind = "missing_node",
             .graph = capture.graph.name,
             .rank = capture.rank.rank,
             .why = "two captures of the step do not have the same ops: " +
                    std::to_string(capture.graph.nodes.size()) + " and " +
                    std::to_string(shadow.graph.nodes.size()),
             .advice = "take no decision about the ops of a step from host values of its batch"}};
  }
  const MemoryMap memory(capture.rank.allocations);
  const MemoryMap in_shadow(shadow.rank.allocations);
  std::vector<Finding> found;
  std::set<std::pair<std::string, std::string>> reported;  // kind, op
  for (std::size_t i = 0; i < capture.graph.nodes.size(); ++i) {
    const Node& node = capture.graph.nodes[i];
    const Node& other = shadow.graph.nodes[i];
    if (!node.exchange.empty()) continue;
    for (std::size_t word = 0; word < node.words.size(); ++word) {
      if (node.words[word] == other.words[word]) continue;
      const MovedWord moved{node, static_cast<int>(i), word, node.words[word], other.words[word]};
      const Allocation* buffer = pointed_at(moved, memory, in_shadow, other.captured_at);
      if (buffer != nullptr && declares(node, *buffer)) continue;
      Finding finding = buffer != nullptr ? undeclared_pointer(capture, moved, *buffer)
                                          : frozen_value(capture, moved);
      if (reported.insert({finding.kind, finding.node}).second) found.push_back(finding);
    }
  }
  return found;
}

}  // namespace dcp::audit
