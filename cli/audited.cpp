#include "cli/audited.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace dcp {

namespace {

void add(std::vector<int>& nodes, int node) {
  if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
}

std::string in_step(int step) {
  return step < 0 ? "before the first step" : "in step " + std::to_string(step);
}

}  // namespace

std::vector<BakedBuffer> baked_buffers(const audit::RankRecord& rank,
                                       const audit::GraphUses& uses) {
  std::map<std::uint32_t, BakedBuffer> found;
  for (const audit::Use& use : uses.all()) {
    if (!use.allocation) continue;
    const audit::Allocation& allocation = rank.allocations[*use.allocation];
    BakedBuffer& buffer =
        found.try_emplace(*use.allocation, BakedBuffer{&allocation, uses.binding_of(use), {}, {}})
            .first->second;
    if (use.access->reads()) add(buffer.readers, use.node);
    if (use.access->writes()) add(buffer.writers, use.node);
  }
  std::vector<BakedBuffer> buffers;
  for (auto& [id, buffer] : found) buffers.push_back(std::move(buffer));
  std::stable_sort(buffers.begin(), buffers.end(), [](const BakedBuffer& a, const BakedBuffer& b) {
    return a.allocation->address < b.allocation->address;
  });
  return buffers;
}

std::vector<std::uint64_t> host_words(const audit::RankRecord& rank, const audit::Node& node) {
  std::vector<std::uint64_t> words;
  for (const std::uint64_t word : node.words) {
    const bool is_pointer =
        word == node.communicator ||
        std::any_of(node.accesses.begin(), node.accesses.end(),
                    [&](const audit::Access& access) { return access.address == word; }) ||
        std::any_of(rank.allocations.begin(), rank.allocations.end(),
                    [&](const audit::Allocation& allocation) {
                      return word >= allocation.address && word < allocation.end();
                    });
    if (word != 0 && !is_pointer) words.push_back(word);
  }
  return words;
}

std::vector<ShownGraph> shown_graphs(const Audited& audited, bool all_ranks) {
  std::vector<ShownGraph> shown;
  std::set<std::string> seen;
  for (const RunRecord::View& view : audited.record.views) {
    std::set<std::string> here;
    for (const audit::RankRecord& rank : view.ranks) {
      if (rank.rank != view.ranks.front().rank && !all_ranks) continue;
      for (const audit::Graph& graph : rank.graphs) {
        const bool is_named = std::any_of(
            audited.findings.begin(), audited.findings.end(), [&](const AuditedFinding& found) {
              return found.step == view.step && found.finding.graph == graph.name;
            });
        if (seen.count(graph.name) > 0 || (view.step >= 0 && !is_named)) continue;
        shown.push_back({view.step, &rank, &graph});
        here.insert(graph.name);
      }
    }
    seen.merge(here);
  }
  return shown;
}

std::string title_of(const ShownGraph& shown) {
  return "graph " + shown.graph->name +
         (shown.step < 0 ? "" : " after step " + std::to_string(shown.step)) + ", rank " +
         std::to_string(shown.rank->rank);
}

std::map<int, std::string> kinds_of(const Audited& audited, const ShownGraph& shown) {
  std::map<int, std::string> kinds;
  for (const AuditedFinding& found : audited.findings) {
    const audit::Finding& finding = found.finding;
    const bool is_of_rank = found.ranks.empty() || std::find(found.ranks.begin(), found.ranks.end(),
                                                             shown.rank->rank) != found.ranks.end();
    if (!is_of_rank || found.step != shown.step || finding.graph != shown.graph->name ||
        finding.node_index < 0) {
      continue;
    }
    std::string& text = kinds[finding.node_index];
    text += (text.empty() ? "" : ", ") + finding.kind;
  }
  return kinds;
}

void add_finding(std::vector<AuditedFinding>& findings, int step, const audit::Finding& finding) {
  for (AuditedFinding& known : findings) {
    audit::Finding same = finding;
    same.rank = known.finding.rank;
    if (known.finding != same) continue;
    const bool has_rank =
        std::find(known.ranks.begin(), known.ranks.end(), finding.rank) != known.ranks.end();
    if (finding.rank >= 0 && !has_rank) known.ranks.push_back(finding.rank);
    return;
  }
  findings.push_back({step, finding, {}});
  if (finding.rank >= 0) findings.back().ranks.push_back(finding.rank);
}

std::vector<std::string> place_parts(const AuditedFinding& found) {
  const audit::Finding& f = found.finding;
  std::vector<std::string> parts;
  const std::string index = f.node_index < 0 ? "" : std::to_string(f.node_index) + " ";
  const std::string generation = f.generation == 0 ? "" : "@" + std::to_string(f.generation);
  if (found.step >= 0) parts.push_back("step " + std::to_string(found.step));
  if (!f.graph.empty()) parts.push_back("graph " + f.graph);
  if (!f.node.empty()) parts.push_back("node " + index + f.node);
  if (!f.argument.empty()) parts.push_back("argument " + f.argument);
  if (!f.buffer.empty()) parts.push_back("buffer " + f.buffer + generation);
  std::string ranks;
  for (const int rank : found.ranks) ranks += " " + std::to_string(rank);
  if (!ranks.empty()) parts.push_back((found.ranks.size() == 1 ? "rank" : "ranks") + ranks);
  if (f.ubatch >= 0) parts.push_back("ubatch " + std::to_string(f.ubatch));
  return parts;
}

std::string life_text(const audit::Allocation& allocation) {
  const std::string born = "since step " + std::to_string(allocation.born_in_step);
  switch (allocation.ending) {
    case audit::Ending::kLive:
      return allocation.born_in_step < 0 ? "live" : "live, " + born;
    case audit::Ending::kFreed:
      return "freed " + in_step(allocation.died_in_step);
    case audit::Ending::kToPool:
      return "back in the pool " + in_step(allocation.died_in_step);
    case audit::Ending::kRemapped:
      return "remapped " + in_step(allocation.died_in_step);
  }
  return "";
}

std::string role_text(audit::Role role) {
  switch (role) {
    case audit::Role::kUnknown:
      return "";
    case audit::Role::kInput:
      return "input";
    case audit::Role::kMetadata:
      return "metadata";
    case audit::Role::kState:
      return "state";
    case audit::Role::kScratch:
      return "scratch";
    case audit::Role::kOutput:
      return "output";
    case audit::Role::kHeld:
      return "held";
  }
  return "";
}

std::string mode_text(const BakedBuffer& buffer, int node) {
  const bool reads = std::binary_search(buffer.readers.begin(), buffer.readers.end(), node);
  const bool writes = std::binary_search(buffer.writers.begin(), buffer.writers.end(), node);
  return std::string(reads ? "r" : "") + (writes ? "w" : "");
}

}  // namespace dcp
