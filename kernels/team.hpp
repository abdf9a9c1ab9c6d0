// A team of lanes that works on one row together: one lane on the host, a warp or a block on a GPU.
// Row arithmetic is written once over a team; lane i takes elements i, i + size, i + 2 size, ...
#pragma once

#include "core/host_device.hpp"

namespace dcp {

struct OneLane {
  static constexpr int lane() { return 0; }
  static constexpr int size() { return 1; }
  static constexpr float sum(float x) { return x; }
  static constexpr float max(float x) { return x; }
  static constexpr void sync() {}
};

}  // namespace dcp
