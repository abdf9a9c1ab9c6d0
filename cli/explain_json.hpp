// The JSON report of `explain`.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/explanation.hpp"

namespace dcp {

nlohmann::ordered_json explanation_json(const Scenario& scenario, const Explanation& explanation);

}  // namespace dcp
