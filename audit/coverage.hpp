// Which bytes of a graph's scratch have been written before a node reads them.
#pragma once

#include <vector>

#include "audit/rule.hpp"

namespace dcp::audit {

// A read of scratch or output, some of which no node writes before.
struct UncoveredRead {
  const Use* use;
  const Binding* binding;
  Address first;              // unwritten byte
  std::uint64_t num_missing;  // bytes
  bool is_in_place;           // the node writes what it reads
};

std::vector<UncoveredRead> uncovered_reads(const GraphScope& scope);

// Bytes of [begin, end) that no node of the graph writes, whatever the order; `first`: of them.
std::uint64_t unwritten_bytes(const GraphScope& scope, Address begin, Address end, Address& first);

// For each operation of the plan its node in the graph, or -1.
std::vector<int> planned_nodes(const Graph& graph);

// Operations of the plan that the graph lacks, in the order of the plan.
std::vector<const Node*> missing_nodes(const Graph& graph);

// Whether a missing operation would have written into [begin, end): then that is the cause.
bool is_explained_by_missing(const Graph& graph, Address begin, Address end);

}  // namespace dcp::audit
