// How the direct exchange is done.
#pragma once

#include <cstdint>

namespace dcp {

// What combines a step of more rows than the slots hold.
enum class DirectFallback : std::uint8_t { kNone, kA2a, kAgRs };

struct DirectSpec {
  int slots = 2;
  DirectFallback fallback = DirectFallback::kNone;
};

}  // namespace dcp
