// The JSON report of `check`.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/checked_case.hpp"

namespace dcp {

// {"name", "checks": [{"strategy", "variant", "status", "out", "lse", "send", "seed", "failure"}],
// "engine": {"status", "out", "lse", "explanations": [{"name", "text"}]}}; `send`, `engine`, the
// parts of `seed` and of `engine` are null where the file has nothing to compare with.
nlohmann::ordered_json checked_case_json(const CheckedCase& checked);

}  // namespace dcp
