// Ranks whose graphs do not make the same exchanges in the same order, or are not the same step.
#include <map>

#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

using Sequence = std::vector<int>;  // nodes

// Per communicator, in the order of their first use: communicators of ranks have no common name.
std::vector<Sequence> exchanges_of(const Graph& graph) {
  std::vector<Sequence> sequences;
  std::map<std::uint64_t, std::size_t> index;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.exchange.empty()) continue;
    const auto [at, is_new] = index.try_emplace(node.communicator, sequences.size());
    if (is_new) sequences.emplace_back();
    sequences[at->second].push_back(static_cast<int>(i));
  }
  return sequences;
}

std::string exchange_text(const Graph& graph, const Sequence& sequence, std::size_t at) {
  if (at >= sequence.size()) return "nothing";
  return graph.nodes[static_cast<std::size_t>(sequence[at])].exchange;
}

}  // namespace

void find_rank_divergences(std::span<const GraphScope> ranks, Findings& found) {
  const Graph& first = ranks.front().graph;
  const auto wanted = exchanges_of(first);
  for (const GraphScope& scope : ranks.subspan(1)) {
    const auto mine = exchanges_of(scope.graph);
    for (std::size_t comm = 0; comm < std::max(wanted.size(), mine.size()); ++comm) {
      const Sequence theirs = comm < wanted.size() ? wanted[comm] : Sequence{};
      const Sequence own = comm < mine.size() ? mine[comm] : Sequence{};
      std::size_t at = 0;
      while (at < std::max(theirs.size(), own.size()) &&
             exchange_text(first, theirs, at) == exchange_text(scope.graph, own, at)) {
        ++at;
      }
      if (at == std::max(theirs.size(), own.size())) continue;
      Finding finding{
          .kind = "rank_divergence", .graph = scope.graph.name, .rank = scope.rank.rank};
      if (at < own.size()) {
        finding.node_index = own[at];
        finding.node = scope.graph.nodes[static_cast<std::size_t>(own[at])].op;
      } else {
        finding.node = first.nodes[static_cast<std::size_t>(theirs[at])].op;
      }
      finding.why = "exchange " + std::to_string(at) + " of communicator " + std::to_string(comm) +
                    " is " + exchange_text(scope.graph, own, at) + " on rank " +
                    std::to_string(scope.rank.rank) + " and " + exchange_text(first, theirs, at) +
                    " on rank " + std::to_string(ranks.front().rank.rank);
      finding.advice = "let all ranks take the decisions that change the exchanges together";
      found.push_back(std::move(finding));
      break;
    }
  }
}

}  // namespace dcp::audit
