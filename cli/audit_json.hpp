// The JSON report of `audit`.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/audited.hpp"

namespace dcp {

nlohmann::ordered_json audited_json(const Audited& audited);

}  // namespace dcp
