// dcpsim check PATH...: runs stored partials through the strategies and says whether the results
// are right.
#pragma once

#include "cli/command_line.hpp"

namespace dcp {

int check_command(const Options& options);

}  // namespace dcp
