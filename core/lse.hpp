// What a log-sum-exp tensor means. The tag travels with the tensor: mixing tags is an error.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace dcp {

enum class LseBase : std::uint8_t { kE, kTwo };

struct LseTag {
  LseBase base = LseBase::kE;
  DType dtype = DType::kFp32;
  friend bool operator==(const LseTag&, const LseTag&) = default;
};

}  // namespace dcp
