#include "reference/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp {

void Comparison::add(const ElementPlace& at, double got, double want, double tolerance) {
  if (got == want) return;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double error = std::abs(got - want);
  if (!std::isfinite(error)) error = kInfinity;
  // Negated, so that a tolerance that is NaN passes nothing.
  const bool bad = !(error < kInfinity && error <= tolerance);
  max_abs_error = std::max(max_abs_error, error);
  max_error_over_tolerance = std::max(
      max_error_over_tolerance, tolerance > 0 && error < kInfinity ? error / tolerance : kInfinity);
  if (bad && (!first_bad || at < first_bad->at)) first_bad = FirstBad{at, got, want};
}

void Comparison::merge(const Comparison& other) {
  max_abs_error = std::max(max_abs_error, other.max_abs_error);
  max_error_over_tolerance = std::max(max_error_over_tolerance, other.max_error_over_tolerance);
  if (other.first_bad && (!first_bad || other.first_bad->at < first_bad->at)) {
    first_bad = other.first_bad;
  }
}

}  // namespace dcp
