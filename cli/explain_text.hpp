// The text of `explain`.
#pragma once

#include <iosfwd>

#include "harness/explanation.hpp"

namespace dcp {

// Every line fits into 100 columns. `all`: every row, request and graph, however many there are.
void print_explanation(std::ostream& out, const Scenario& scenario, const Explanation& explanation,
                       bool all);

}  // namespace dcp
