// The text report of `check`.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/checked_case.hpp"

namespace dcp {

struct CheckText {
  bool color = false;
  bool variants = false;  // rows of variants that passed, too
};

// Names the file, who made it, and the columns.
void print_check_head(std::ostream& out, const std::string& file, const std::string& source);

// One line per verdict, the engine's last, each followed by what is wrong with it and the command
// that reproduces it. `seed` is that of the schedule.
void print_checked_case(std::ostream& out, const CheckedCase& checked, std::uint64_t seed,
                        const CheckText& style);

}  // namespace dcp
