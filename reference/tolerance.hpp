// How far a result may be from the right one. The reference depends on core and Eigen only: it is
// written from the formulas in float64 and shares no code with the kernels.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace dcp {

// Half the spacing of the values in [1, 2): 2^-8 bf16, 2^-11 fp16, 2^-24 fp32.
double unit_roundoff(DType dtype);

double smallest_subnormal(DType dtype);

// Spacing of the dtype's values at `right`: max(2^(e-p+1), smallest subnormal), where
// 2^e <= |right| < 2^(e+1) and p is the precision. Not bounded above; inf for inf, NaN for NaN.
double ulp(DType dtype, double right);

// Whether the dtype may hold `right`, give or take `tolerance`, as an infinity: a right value that
// overflows the dtype is one in the float64 reference only.
bool may_overflow(DType dtype, double right, double tolerance);

// How a strategy rounds its output.
enum class OutputRounding : std::uint8_t {
  kOnce,  // fp32 accumulation, one rounding at the end
  kTerms  // every rank rounds its term to the dtype, the sum is taken in the dtype
};

// `weighted_magnitude` is S = sum over ranks of weight * |out_r|.
struct CombineTolerance {
  OutputRounding rounding;
  int world_size;
  DType dtype;

  double out(double right, double weighted_magnitude) const;
};

double combined_lse_tolerance(double right);

// Relative error of a partial's probabilities: 2^-18 where they stay in fp32, else the unit
// roundoff of the type that they are rounded to before they meet the values.
double probability_error(DType probability_dtype);

// `magnitude` is P = sum over keys of probability * |v|.
double partial_out_tolerance(DType dtype, double right, double probability_error, double magnitude);

double partial_lse_tolerance(DType lse_dtype, double right);

}  // namespace dcp
