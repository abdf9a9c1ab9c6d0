// The right values of a row, and the comparison of what was observed with them.
#pragma once

#include <Eigen/Core>
#include <span>

#include "core/dtype.hpp"
#include "reference/compare.hpp"
#include "reference/observation.hpp"

namespace dcp {

// The right values of one row and head, and how far a result may be off.
struct WantedRow {
  Eigen::ArrayXd out;            // [D]
  Eigen::ArrayXd out_tolerance;  // [D]
  double lse;
  double lse_tolerance;
};

// Compares `got` [D] of `dtype`, whose head is at `at`, element by element. An infinity is right
// where the right value overflows the dtype.
void compare_elements(Comparison& comparison, ElementPlace at, std::span<const float> got,
                      const WantedRow& want, DType dtype);

// Compares an output of a row, and its lse where it has one, on the rank that `at` names, or does
// nothing where that rank does not hold the head. `at.head` is a head of the group.
void compare_output(Comparison& comparison, ElementPlace at, const ObservedOutput& observed,
                    const WantedRow& want);

// The same on every rank.
void compare_outputs(Comparison& comparison, ElementPlace at, const ObservedOutput& observed,
                     const WantedRow& want);

}  // namespace dcp
