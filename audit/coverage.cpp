#include "audit/coverage.hpp"

#include <algorithm>
#include <map>

namespace dcp::audit {

namespace {

struct Range {
  Address begin;
  Address end;
};

// Bytes of `wanted` that none of `written` holds.
std::uint64_t missing_bytes(Range wanted, std::vector<Range> written, Address& first) {
  std::sort(written.begin(), written.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::uint64_t missing = 0;
  Address at = wanted.begin;
  const auto miss = [&](Address until) {
    if (until <= at) return;
    if (missing == 0) first = at;
    missing += until - at;
  };
  for (const Range& range : written) {
    miss(std::min(range.begin, wanted.end));
    at = std::max(at, std::min(range.end, wanted.end));
  }
  miss(wanted.end);
  return missing;
}

bool holds_nothing_between_launches(const Binding* binding) {
  return binding != nullptr && (binding->role == Role::kScratch || binding->role == Role::kOutput);
}

}  // namespace

std::vector<UncoveredRead> uncovered_reads(const GraphScope& scope) {
  std::map<std::uint32_t, std::vector<const Use*>> writers;  // by allocation
  for (const Use& use : scope.uses.all()) {
    if (use.allocation && use.access->writes() && use.access->is_declared) {
      writers[*use.allocation].push_back(&use);
    }
  }
  std::vector<UncoveredRead> found;
  for (const Use& use : scope.uses.all()) {
    const Access& access = *use.access;
    if (!use.allocation || !access.reads() || !access.is_declared) continue;
    const Binding* binding = scope.uses.binding_of(use);
    if (!holds_nothing_between_launches(binding)) continue;
    std::vector<Range> written;
    bool is_in_place = access.writes();
    for (const Use* writer : writers[*use.allocation]) {
      const bool overlaps =
          writer->access->address < access.end() && access.address < writer->access->end();
      is_in_place |= overlaps && writer->node == use.node;
      if (overlaps && scope.uses.order().precedes(writer->node, use.node)) {
        written.push_back({writer->access->address, writer->access->end()});
      }
    }
    Address first = access.address;
    const std::uint64_t missing = missing_bytes({access.address, access.end()}, written, first);
    if (missing > 0) found.push_back({&use, binding, first, missing, is_in_place});
  }
  return found;
}

std::uint64_t unwritten_bytes(const GraphScope& scope, Address begin, Address end, Address& first) {
  std::vector<Range> written;
  for (const Use& use : scope.uses.all()) {
    if (use.access->writes()) written.push_back({use.access->address, use.access->end()});
  }
  return missing_bytes({begin, end}, std::move(written), first);
}

std::vector<const Node*> missing_nodes(const Graph& graph) {
  std::vector<const Node*> missing;
  std::size_t at = 0;
  for (const Node& planned : graph.plan) {
    if (at < graph.nodes.size() && graph.nodes[at].op == planned.op) {
      ++at;
    } else {
      missing.push_back(&planned);
    }
  }
  return missing;
}

bool is_explained_by_missing(const Graph& graph, Address begin, Address end) {
  for (const Node* node : missing_nodes(graph)) {
    for (const Access& access : node->accesses) {
      if (access.writes() && access.address < end && begin < access.end()) return true;
    }
  }
  return false;
}

}  // namespace dcp::audit
