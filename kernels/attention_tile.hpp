// Softmax attention of one row and head, a tile of keys at a time: a running maximum, and sums that
// shrink by exp(old max - new max) when it rises. Exponents are natural until the end.
// Sums over tiles are compensated.
#pragma once

#include <cmath>
#include <limits>

#include "core/host_device.hpp"
#include "core/lse.hpp"
#include "kernels/compensated_sum.hpp"

namespace dcp {

inline constexpr int kTileKeys = 64;

// Adds to a sum after what was summed so far has shrunk.
DCP_HOST_DEVICE inline void shrink_and_add(float& sum, float& error, float shrink, float term) {
  sum *= shrink;
  error *= shrink;
  add_compensated(sum, error, term);
}

// sum = sum over the keys so far of exp(score - max).
struct OnlineSoftmax {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;
  float error = 0.0f;
};

// Scores of `count` >= 1 keys, which the team shares, become exp(scale * q.k - max). Returns the
// factor by which sums over earlier tiles shrink. A NaN score ends as NaN in the sum.
template <class Team>
DCP_HOST_DEVICE float softmax_tile(float* scores, int count, float scale, OnlineSoftmax& state) {
  float max = state.max;
  for (int key = Team::lane(); key < count; key += Team::size()) {
    scores[key] *= scale;
    max = scores[key] > max ? scores[key] : max;
  }
  max = Team::max(max);
  float sum = 0.0f;
  for (int key = Team::lane(); key < count; key += Team::size()) {
    scores[key] = std::exp(scores[key] - max);
    sum += scores[key];
  }
  Team::sync();  // every lane reads every key's weight next
  const float shrink = std::exp(state.max - max);
  shrink_and_add(state.sum, state.error, shrink, Team::sum(sum));
  state.max = max;
  return shrink;
}

// log_base of the sum of exp(scale * q.k).
DCP_HOST_DEVICE inline float attention_lse(const OnlineSoftmax& state, LseBase base) {
  constexpr float kLog2E = 1.44269504088896341f;
  if (base == LseBase::kTwo) return state.max * kLog2E + std::log2(state.sum);
  return state.max + std::log(state.sum);
}

}  // namespace dcp
