// What `audit` shows: graphs and memory at the end of a run, or as another program wrote them, and
// what was found on the way.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "audit/finding.hpp"
#include "audit/graph_uses.hpp"
#include "audit/record.hpp"
#include "harness/report.hpp"
#include "harness/scenario_runner.hpp"

namespace dcp {

struct AuditedFinding {
  int step = -1;                // of the scenario; -1: there are no steps
  audit::Finding finding;       // of the first of its ranks
  std::vector<int> ranks = {};  // that have the same one
};

struct Audited {
  std::string file;
  std::string strategy;  // "": a record of another program
  RunRecord record;
  std::vector<AuditedFinding> findings;
  std::vector<StepReport> steps = {};
  std::string bad_input = {};  // why it could not be run
};

// A graph as it was when something was found in it or, where nothing was, at the end.
struct ShownGraph {
  int step;  // -1: the end
  const audit::RankRecord* rank;
  const audit::Graph* graph;
};

// Of each rank or of the first alone.
std::vector<ShownGraph> shown_graphs(const Audited& audited, bool all_ranks);

std::string title_of(const ShownGraph& shown);  // "graph g4 after step 1, rank 0"

// Node -> the kinds of hazard that were found there, with commas.
std::map<int, std::string> kinds_of(const Audited& audited, const ShownGraph& shown);

// Adds a finding; the same one on another rank only adds the rank.
void add_finding(std::vector<AuditedFinding>& findings, int step, const audit::Finding& finding);

// An allocation that a graph means, and by which nodes.
struct BakedBuffer {
  const audit::Allocation* allocation;
  const audit::Binding* binding;  // null: it has no name in the graph
  std::vector<int> readers;       // nodes, ascending
  std::vector<int> writers;
};

// In order of address. Memory that nobody knows is not among them.
std::vector<BakedBuffer> baked_buffers(const audit::RankRecord& rank, const audit::GraphUses& uses);

// Argument words of the node that point into no allocation of the rank, without zeros.
std::vector<std::uint64_t> host_words(const audit::RankRecord& rank, const audit::Node& node);

// Where the finding is, part by part: "step 3", "graph b", "node 4 all_to_all", ...
std::vector<std::string> place_parts(const AuditedFinding& found);

std::string life_text(const audit::Allocation& allocation);
std::string role_text(audit::Role role);
std::string mode_text(const BakedBuffer& buffer, int node);  // "r", "w", "rw" or ""

}  // namespace dcp
