// The float64 combine of one row and head from the partials of all ranks.
#pragma once

#include <Eigen/Core>

#include "core/lse.hpp"

namespace dcp {

struct CombinedRow {
  Eigen::ArrayXd weights;             // [N] w_r / s; all 0 where every partial is empty
  Eigen::ArrayXd out;                 // [D]
  Eigen::ArrayXd weighted_magnitude;  // [D] S = sum of weight * |out_r|
  double lse;                         // -inf where every partial is empty
};

// `lse` [N] in `base`; `outs` [D, N]. With b the base:
//   l_r <- -inf where NaN or +inf;  m = max l_r;  all -inf: out 0, lse -inf
//   w_r = b^(l_r - m), but 0 where fp32(l_r - m) * log2(b) < -126;  s = sum w_r
//   out = sum of (w_r / s) * out_r over ranks with w_r > 0;  lse = m + log_b(s)
// A rank of weight 0 is never read: its column may hold NaN, infinities or stale values.
CombinedRow combine(const Eigen::ArrayXd& lse, const Eigen::Ref<const Eigen::ArrayXXd>& outs,
                    LseBase base);

// Natural logarithm of the base.
double log_of(LseBase base);

}  // namespace dcp
