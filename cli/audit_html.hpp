// One self-contained page of an audit: no script, nothing loaded from elsewhere.
#pragma once

#include <string>

#include "cli/audited.hpp"

namespace dcp {

// Findings, what was refused, and of each graph of the first rank a drawing by stream and the map
// of buffer by node.
std::string audit_html(const Audited& audited);

}  // namespace dcp
