// The JSON report of `check`.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/vector_check.hpp"

namespace dcp {

// {"name", "checks": [{"strategy", "variant", "status", "out", "lse", "send", "seed", "failure"}]};
// `send` and the parts of `seed` are null where the file has nothing to compare with.
nlohmann::ordered_json checked_case_json(const std::string& name,
                                         const std::vector<VectorVerdict>& verdicts);

}  // namespace dcp
