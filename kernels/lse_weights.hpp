// The weights of a combine: from the log-sum-exps that the ranks report for one row and head to the
// factor of each rank's partial.
//
//   l_r <- -inf where l_r is NaN or +inf
//   m = max_r l_r,  w_r = b^(l_r - m), exactly 0 where fp32(l_r - m) * log2(b) < -126,  s = sum w_r
//   factor of rank r: w_r / s;   lse = m + log_b(s);   all -inf: every factor 0 and lse -inf
//
// w_r / s and not b^(l_r - lse): a huge |lse| has no digits left for log_b(s), and factors that are
// taken from it do not sum to 1.
#pragma once

#include <cmath>
#include <limits>

#include "core/host_device.hpp"
#include "core/lse.hpp"
#include "kernels/compensated_sum.hpp"

namespace dcp {

// Calls `body.template operator()<kBase>()`.
template <class Body>
auto dispatch_lse_base(LseBase base, Body&& body) {
  if (base == LseBase::kTwo) return body.template operator()<LseBase::kTwo>();
  return body.template operator()<LseBase::kE>();
}

// What the ranks' lses of one row and head add up to. `sum` is 0 where all of them are -inf, else
// at least 1.
struct LseSum {
  float max;
  float sum;
};

// A rank that reports NaN or +inf has nothing to say.
DCP_HOST_DEVICE inline float sanitize_lse(float lse) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return lse < kInfinity ? lse : -kInfinity;
}

// Differences below this have weight 0. Base e: the fp32 number next above -126 * ln 2, so that
// comparing with it decides as the real product with log2(e) does.
template <LseBase kBase>
inline constexpr float kLowestLseDifference =
    kBase == LseBase::kTwo ? -126.0f : -11447375.0f * 0x1p-17f;

// b^(lse - max) of a sanitized lse.
template <LseBase kBase>
DCP_HOST_DEVICE float lse_weight(float lse, float max) {
  if (lse == -std::numeric_limits<float>::infinity()) return 0.0f;  // also where max is -inf
  const float difference = lse - max;
  if (difference < kLowestLseDifference<kBase>) return 0.0f;
  return kBase == LseBase::kTwo ? std::exp2(difference) : std::exp(difference);
}

// Sum over the ranks; `lse_of(rank)` is the lse as reported.
template <LseBase kBase, class Team, class LseOf>
DCP_HOST_DEVICE LseSum sum_lses(int world_size, const LseOf& lse_of) {
  float max = -std::numeric_limits<float>::infinity();
  for (int rank = Team::lane(); rank < world_size; rank += Team::size()) {
    const float lse = sanitize_lse(lse_of(rank));
    max = lse > max ? lse : max;
  }
  max = Team::max(max);
  float sum = 0.0f;
  float error = 0.0f;
  for (int rank = Team::lane(); rank < world_size; rank += Team::size()) {
    add_compensated(sum, error, lse_weight<kBase>(sanitize_lse(lse_of(rank)), max));
  }
  return {max, Team::sum(sum)};
}

// The factor of a rank's partial, from its lse as reported. 0: the partial must not be read.
template <LseBase kBase>
DCP_HOST_DEVICE float rank_factor(float lse, const LseSum& total) {
  const float weight = lse_weight<kBase>(sanitize_lse(lse), total.max);
  return weight > 0.0f ? weight / total.sum : 0.0f;
}

template <LseBase kBase>
DCP_HOST_DEVICE float combined_lse(const LseSum& total) {
  if (!(total.sum > 0.0f)) return -std::numeric_limits<float>::infinity();
  return total.max + (kBase == LseBase::kTwo ? std::log2(total.sum) : std::log(total.sum));
}

}  // namespace dcp
