// What the ranks of an engine left behind in one layer. Without Eigen: engines' runners include it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/dtype.hpp"

namespace dcp {

// Decoded to float, contiguous. T rows, padding included; H heads of the group.
struct RankObservation {
  std::span<const float> partial_out;  // [T, H, D]
  std::span<const float> partial_lse;  // [T, H]
  std::span<const float> out;          // [T, num_out_heads, D]
  std::span<const float> lse;          // [T, num_out_heads], or empty where it is not returned
  int first_out_head = 0;
  int num_out_heads = 0;

  // Where new tokens are attended to apart: the combined state of the context and the state of the
  // new tokens, which out and lse are merged of. [T, num_out_heads, (D)]
  std::span<const float> context_out = {};
  std::span<const float> context_lse = {};
  std::span<const float> new_out = {};
  std::span<const float> new_lse = {};

  // Whether the rank took part in the step. One that did not leaves every tensor empty.
  bool is_there() const { return num_out_heads > 0; }

  // Where a row and head of the group stand in the tensors of num_out_heads heads, if they do.
  std::optional<std::size_t> index(std::int64_t row, int head) const {
    const int local_head = head - first_out_head;
    if (local_head < 0 || local_head >= num_out_heads) return std::nullopt;
    return static_cast<std::size_t>(row * num_out_heads + local_head);
  }
};

struct LayerObservation {
  int layer = 0;
  std::span<const float> query;        // [T, H, Dq] as the engine used it in this layer, unsharded
  std::vector<RankObservation> ranks;  // [N]
};

// One of the outputs that ranks leave, in `dtype`.
struct ObservedOutput {
  const LayerObservation& layer;
  enum class Which : std::uint8_t { kResult, kContext, kNewTokens } which;
  DType dtype;
};

}  // namespace dcp
