// What `check` found about one case, for its reports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/engine_check.hpp"
#include "harness/vector_check.hpp"

namespace dcp {

struct CheckedCase {
  std::vector<std::string> files;  // that it was read from: one, or one per rank
  std::string name;
  std::vector<VectorVerdict> verdicts;
  std::optional<EngineVerdict> engine;  // of a dump with results
};

}  // namespace dcp
