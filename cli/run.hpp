// dcpsim run PATH...: runs scenarios and says what every replay did.
#pragma once

#include "cli/command_line.hpp"

namespace dcp {

int run_command(const Options& options);

}  // namespace dcp
