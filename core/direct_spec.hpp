// How the direct exchange is done.
#pragma once

#include <cstdint>

namespace dcp {

// What combines a step of more rows than the slots hold.
enum class DirectFallback : std::uint8_t { kNone, kA2a, kAgRs };

// Operations apart, or as few nodes as there can be: the combine's exchange is one, a gather one
// that sends and one that waits and reads.
enum class DirectForm : std::uint8_t { kSteps, kFused };

struct DirectSpec {
  int slots = 2;
  DirectFallback fallback = DirectFallback::kNone;
  DirectForm form = DirectForm::kSteps;
};

}  // namespace dcp
