// The JSON report of `run`; its fields are listed in scenarios/README.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "comm/make_world.hpp"
#include "harness/report.hpp"

namespace dcp {

nlohmann::ordered_json hazard_json(const audit::Finding& hazard);

// `seed`: of the schedule.
nlohmann::ordered_json run_json(std::span<const ScenarioReport> reports,
                                const BackendChoice& backend, std::uint64_t seed);

}  // namespace dcp
