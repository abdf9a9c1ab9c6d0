// Faults in the weights: what they are rounded to, how they are normalised, what they multiply.
#pragma once

#include <vector>

#include "harness/engine_faults.hpp"
#include "reference/combine.hpp"

namespace dcp {

// A prediction that is a combine of other numbers.
PredictedRow predicted(const CombinedRow& combined);

// Appends the faults in the weights.
void add_weight_faults(const EngineDump& dump, std::vector<EngineFault>& faults);

}  // namespace dcp
