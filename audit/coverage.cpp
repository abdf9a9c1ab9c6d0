#include "audit/coverage.hpp"

#include <algorithm>
#include <map>
#include <string_view>

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
      // Of a writer that nothing orders, another rule tells.
      const bool comes_later = scope.uses.order().precedes(use.node, writer->node);
      if (overlaps && writer->node != use.node && !comes_later) {
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
    const Access& access = *use.access;
    if (!access.writes() || access.end() <= begin || end <= access.address) continue;
    written.push_back({access.address, access.end()});
  }
  return missing_bytes({begin, end}, std::move(written), first);
}

namespace {

using Names = std::vector<std::string_view>;

Names names_of(std::span<const Node> nodes) {
  Names names;
  for (const Node& node : nodes) names.emplace_back(node.op);
  return names;
}

// For each of `wanted`, its partner in a longest common subsequence with `has`, or -1.
std::vector<int> partners(const Names& wanted, const Names& has) {
  const std::size_t width = has.size() + 1;
  std::vector<std::uint32_t> length((wanted.size() + 1) * width, 0);  // of the rests
  for (std::size_t i = wanted.size(); i-- > 0;) {
    for (std::size_t j = has.size(); j-- > 0;) {
      length[i * width + j] =
          wanted[i] == has[j] ? length[(i + 1) * width + j + 1] + 1
                              : std::max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  std::vector<int> partner(wanted.size(), -1);
  for (std::size_t i = 0, j = 0; i < wanted.size() && j < has.size();) {
    if (wanted[i] == has[j]) {
      partner[i++] = static_cast<int>(j++);
    } else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return partner;
}

}  // namespace

// What both begin with is paired first: nearly always that is all.
std::vector<int> planned_nodes(const Graph& graph) {
  const Names wanted = names_of(graph.plan);
  const Names has = names_of(graph.nodes);
  const auto same = std::mismatch(wanted.begin(), wanted.end(), has.begin(), has.end());
  const auto common = same.first - wanted.begin();
  std::vector<int> nodes;
  for (std::ptrdiff_t i = 0; i < common; ++i) nodes.push_back(static_cast<int>(i));
  for (const int partner : partners({same.first, wanted.end()}, {same.second, has.end()})) {
    nodes.push_back(partner < 0 ? -1 : partner + static_cast<int>(common));
  }
  return nodes;
}

std::vector<const Node*> missing_nodes(const Graph& graph) {
  std::vector<const Node*> missing;
  const auto nodes = planned_nodes(graph);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] < 0) missing.push_back(&graph.plan[i]);
  }
  return missing;
}

bool is_explained_by_missing(const Graph& graph, Address begin, Address end) {
  for (const Node* node : missing_nodes(graph)) {
    for (const Access& access : node->accesses) {
      const bool writes = access.writes() && access.size_bytes > 0;
      if (writes && access.address < end && begin < access.end()) return true;
    }
  }
  return false;
}

}  // namespace dcp::audit
