// Which rows of a step see no key on a rank.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"

namespace dcp {

// Ascending, padded rows of the step included.
std::vector<std::int64_t> empty_rows_of(const Scenario& scenario, const StepRun& run, int rank);

}  // namespace dcp
