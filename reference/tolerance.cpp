#include "reference/tolerance.hpp"

#include <algorithm>
#include <cmath>

namespace dcp {

namespace {

struct Format {
  int precision;     // bits of the significand, the hidden one included
  int min_exponent;  // the smallest subnormal is 2^min_exponent
  int max_exponent;  // the largest finite value is below 2^(max_exponent + 1)
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kFp16:
      return {11, -24, 15};
    case DType::kBf16:
      return {8, -133, 127};
    case DType::kFp8E4m3:
      return {4, -9, 8};
    case DType::kFp32:
      break;
  }
  return {24, -149, 127};
}

double max_one(double value) { return std::max(1.0, std::abs(value)); }

}  // namespace

double unit_roundoff(DType dtype) { return std::ldexp(1.0, -format_of(dtype).precision); }

double smallest_subnormal(DType dtype) { return std::ldexp(1.0, format_of(dtype).min_exponent); }

double ulp(DType dtype, double right) {
  if (!std::isfinite(right)) return std::abs(right);
  const Format format = format_of(dtype);
  if (right == 0) return std::ldexp(1.0, format.min_exponent);
  return std::ldexp(1.0, std::max(std::ilogb(right) - format.precision + 1, format.min_exponent));
}

bool may_overflow(DType dtype, double right, double tolerance) {
  return std::abs(right) + tolerance >= std::ldexp(1.0, format_of(dtype).max_exponent + 1);
}

double CombineTolerance::out(double right, double weighted_magnitude) const {
  const double accumulation = 16 * 0x1p-24 * weighted_magnitude;
  if (rounding == OutputRounding::kOnce) return ulp(dtype, right) + accumulation;
  return world_size * unit_roundoff(dtype) * weighted_magnitude +
         world_size * smallest_subnormal(dtype) + accumulation;
}

double combined_lse_tolerance(double right) { return 0x1p-20 * max_one(right); }

double probability_error(DType probability_dtype) {
  return probability_dtype == DType::kFp32 ? 0x1p-18 : unit_roundoff(probability_dtype);
}

double partial_out_tolerance(DType dtype, double right, double probability_error,
                             double magnitude) {
  return ulp(dtype, right) + probability_error * magnitude;
}

double partial_lse_tolerance(DType lse_dtype, double right) {
  return 0x1p-16 * max_one(right) + 0.5 * ulp(lse_dtype, right);
}

}  // namespace dcp
