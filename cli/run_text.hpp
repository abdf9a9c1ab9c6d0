// The text report of `run`.
#pragma once

#include <iosfwd>
#include <string>

#include "harness/report.hpp"

namespace dcp {

struct RunText {
  bool color = false;
  bool steps = false;  // every step, rank by rank, not only what fell short
};

// One line for the scenario, then its steps or what fell short, then the command that reproduces
// it.
void print_scenario(std::ostream& out, const ScenarioReport& report, const RunText& style,
                    const std::string& reproduce);

}  // namespace dcp
