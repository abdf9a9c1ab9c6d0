// What an attention kernel leaves in rows that see no key. Real kernels differ; a combine must give
// the same result with each of them.
#pragma once

#include <cstdint>
#include <limits>

#include "core/host_device.hpp"

namespace dcp {

enum class EmptyRowMode : std::int32_t {
  kExact,        // out 0, lse -inf
  kPoisonEmpty,  // NaN in out and lse of every empty row
  kPlusInf,      // lse +inf, out NaN
  kNanPad,       // NaN in rows past the last boundary; exact in other empty rows
  kUntouched,    // neither is written
};

struct EmptyRow {
  bool is_written;
  float out;
  float lse;
};

// `is_padding`: the row is past the last boundary of query_start_loc.
DCP_HOST_DEVICE inline EmptyRow empty_row(EmptyRowMode mode, bool is_padding) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const bool is_nan =
      mode == EmptyRowMode::kPoisonEmpty || (mode == EmptyRowMode::kNanPad && is_padding);
  if (mode == EmptyRowMode::kUntouched) return {false, 0.0f, 0.0f};
  if (mode == EmptyRowMode::kPlusInf) return {true, kNan, kInfinity};
  if (is_nan) return {true, kNan, kNan};
  return {true, 0.0f, -kInfinity};
}

}  // namespace dcp
