// The table of commands. A new command is one file with one function, and one line in commands.cpp.
#pragma once

#include <span>

#include "cli/command_line.hpp"

namespace dcp {

// In the order of the help text.
std::span<const Command> all_commands();

}  // namespace dcp
