// Comparisons in JSON reports.
#pragma once

#include <nlohmann/json.hpp>

#include "reference/compare.hpp"

namespace dcp {

// {"max_abs_error", "max_error_over_tolerance", "first_bad"}; first_bad is null or names rank,
// layer, row, head, element ("lse" for the lse), got and want. What JSON has no number for is a
// string: "inf", "-inf", "nan".
nlohmann::ordered_json comparison_json(const Comparison& comparison);

}  // namespace dcp
