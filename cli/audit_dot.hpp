// Graphs of an audit in the language of graphviz.
#pragma once

#include <string>

#include "cli/audited.hpp"

namespace dcp {

// One cluster for each stream, one colour for each ubatch; nodes with a finding are red, and a red
// dashed edge joins two nodes that touch the same bytes without an order.
std::string audit_dot(const Audited& audited);

}  // namespace dcp
