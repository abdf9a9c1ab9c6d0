// What an engine may have done wrong when it combined partials: each known fault predicts the
// result of every row and head, so that the one that reproduces the engine's numbers explains them.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/engine_dump.hpp"

namespace dcp {

// What a fault makes of one row and head.
struct PredictedRow {
  Eigen::ArrayXd out;        // [D]
  Eigen::ArrayXd magnitude;  // [D] sum of |weight * out_r|, for the tolerance
  Eigen::ArrayXd slack;      // [D] what a rounding that may fall either way adds to the tolerance
  double lse;
};

struct EngineFault {
  std::string_view name;  // "wrong_base", ...: equal for the forms of one fault
  std::string text;       // what was done
  std::function<PredictedRow(std::int64_t row, int head)> predict;
};

// The faults that this dump may show. They refer to `dump`, which must outlive them.
std::vector<EngineFault> engine_faults(const EngineDump& dump);

}  // namespace dcp
