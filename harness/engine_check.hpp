// Whether what an engine made of partials is right, and where not, which known fault reproduces
// its numbers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/engine_dump.hpp"
#include "harness/partials_check.hpp"

namespace dcp {

struct Explanation {
  std::string_view name;  // "wrong_base", ...
  std::string text;
};

struct EngineVerdict {
  bool has_out = false;
  bool has_lse = false;
  CombineVerdict engine;                  // against the float64 combine
  std::vector<Explanation> explanations;  // of a wrong result: what reproduces every element of it

  bool passed() const { return engine.passed(); }
};

// `right` [T * H]: the combine of dump.masked_partials().
EngineVerdict check_engine(const EngineDump& dump, std::span<const CombinedRow> right);

}  // namespace dcp
