// What the ranks of an engine left behind in one layer, and its comparison with what is wanted.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "reference/compare.hpp"

namespace dcp {

// Decoded to float, contiguous. T rows, padding included; H heads of the group.
struct RankObservation {
  std::span<const float> partial_out;  // [T, H, D]
  std::span<const float> partial_lse;  // [T, H]
  std::span<const float> out;          // [T, num_out_heads, D]
  std::span<const float> lse;          // [T, num_out_heads], or empty where it is not returned
  int first_out_head = 0;
  int num_out_heads = 0;
};

struct LayerObservation {
  int layer = 0;
  std::span<const float> query;        // [T, H, Dq] as the engine used it in this layer, unsharded
  std::vector<RankObservation> ranks;  // [N]
};

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

// Compares out and, where it is returned, lse of a row on every rank that holds the head. `at`
// names layer, row and head (of the group).
void compare_outputs(Comparison& comparison, ElementPlace at, const LayerObservation& observation,
                     const WantedRow& want, DType dtype);

}  // namespace dcp
