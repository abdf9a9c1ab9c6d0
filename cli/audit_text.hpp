// The text of `audit`.
#pragma once

#include <iosfwd>

#include "cli/audited.hpp"

namespace dcp {

// What each graph has baked in, on rank 0 or, with `all`, on every rank, then the findings.
void print_audit(std::ostream& out, const Audited& audited, bool all);

}  // namespace dcp
