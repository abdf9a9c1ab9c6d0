// Allocations that a graph still means although they have ended.
#pragma once

#include <vector>

#include "audit/rule.hpp"

namespace dcp::audit {

struct EndedUse {
  const Use* first;              // of the allocation, by node
  int num_uses;                  // by how many nodes
  const Allocation* allocation;  // alive when the first was captured, ended since
};

std::vector<EndedUse> ended_uses(const GraphScope& scope, Ending ending);

// What the next step would use in the place of what the graph means; null: it is the same, or
// nothing.
const Allocation* replacement_of(const GraphScope& scope, const Allocation& allocation);

// Whether more than one graph of the rank means the allocation as scratch.
bool is_shared_scratch(const GraphScope& scope, const Allocation& allocation);

}  // namespace dcp::audit
