// Two captures of one step, with every allocation elsewhere and other host values: what moved with
// the memory is a pointer, what moved otherwise was passed by value.
#pragma once

#include <vector>

#include "audit/finding.hpp"
#include "audit/record.hpp"

namespace dcp::audit {

struct Capture {
  const RankRecord& rank;
  const Graph& graph;
};

// frozen_host_value for each op with a word that followed the host values, undeclared_access for
// each with a pointer into memory that it does not declare, missing_node where the captures do not
// have the same ops. Collectives are left out: their communicator is another.
std::vector<Finding> compare_captures(const Capture& capture, const Capture& shadow);

}  // namespace dcp::audit
