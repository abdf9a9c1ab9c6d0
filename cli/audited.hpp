// What `audit` shows: graphs and memory at the end of a run, or as another program wrote them, and
// what was found on the way.
#pragma once

#include <string>
#include <vector>

#include "audit/finding.hpp"
#include "audit/graph_uses.hpp"
#include "audit/record.hpp"
#include "harness/report.hpp"

namespace dcp {

struct AuditedFinding {
  int step = -1;  // of the scenario; -1: there are no steps
  audit::Finding finding;
};

struct Audited {
  std::string file;
  std::string strategy;  // "": a record of another program
  std::vector<audit::RankRecord> ranks;
  std::vector<AuditedFinding> findings;
  std::vector<StepReport> steps = {};
  std::string bad_input = {};  // why it could not be run
};

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
