// The whole audit of a record, at once.
#pragma once

#include <vector>

#include "audit/finding.hpp"
#include "audit/record.hpp"

namespace dcp::audit {

// Everything that the rules prove, graph after graph, rank after rank. Graphs of one name on
// several ranks are the same step.
std::vector<Finding> audit(const Record& record);

}  // namespace dcp::audit
