// The part of an explanation that a strategy decides, taken from captures that are never run.
#pragma once

#include "harness/explanation.hpp"
#include "strategies/strategy.hpp"

namespace dcp {

ExplainedStrategy explain_strategy(const Scenario& scenario, const Strategy& strategy);

}  // namespace dcp
