// The JSON report of `run`; its fields are listed in scenarios/README.md.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/report.hpp"

namespace dcp {

nlohmann::ordered_json scenario_json(const ScenarioReport& report);

}  // namespace dcp
