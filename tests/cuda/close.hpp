// Results of kernels that add, beside those of the host.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/dtype.hpp"

namespace dcp {

// Distance of one rounding of `dtype` at `value`.
inline double ulp(DType dtype, double value) {
  const double digits = dtype == DType::kFp32 ? 24 : dtype == DType::kFp16 ? 11 : 8;
  const double magnitude = std::max(std::abs(value), dtype == DType::kFp16 ? 0x1p-14 : 0x1p-126);
  return std::ldexp(1.0, std::ilogb(magnitude) + 1 - static_cast<int>(digits));
}

inline void expect_close(const std::byte* gpu, const std::byte* host, DType dtype,
                         std::size_t count, double slack, const std::string& what) {
  for (std::size_t i = 0; i < count; ++i) {
    const double a = load_element(gpu, dtype, i);
    const double b = load_element(host, dtype, i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    // One rounding of the result, and the terms' own errors, which are relative to the terms.
    ASSERT_LE(std::abs(a - b), ulp(dtype, std::max(std::abs(a), std::abs(b))) + slack)
        << what << " element " << i << ": GPU " << a << ", host " << b;
  }
}

}  // namespace dcp
