#include "reference/combine.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace dcp {

namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// b^(lse - max), not normalised. The difference is taken in fp32, as the contract words the limit
// below which a rank no longer counts.
double weight_of(double lse, double max_lse, LseBase base) {
  const double log2_base = log_of(base) / std::numbers::ln2;
  const float difference = static_cast<float>(lse) - static_cast<float>(max_lse);
  if (difference * log2_base < -126) return 0;
  return base == LseBase::kTwo ? std::exp2(lse - max_lse) : std::exp(lse - max_lse);
}

}  // namespace

double log_of(LseBase base) { return base == LseBase::kTwo ? std::numbers::ln2 : 1.0; }

CombinedRow combine(const Eigen::ArrayXd& lse, const Eigen::Ref<const Eigen::ArrayXXd>& outs,
                    LseBase base) {
  const Eigen::ArrayXd clean =
      lse.unaryExpr([](double l) { return std::isfinite(l) ? l : kEmpty; });
  CombinedRow row{.weights = Eigen::ArrayXd::Zero(lse.size()),
                  .out = Eigen::ArrayXd::Zero(outs.rows()),
                  .weighted_magnitude = Eigen::ArrayXd::Zero(outs.rows()),
                  .lse = kEmpty};
  const double max_lse = clean.maxCoeff();
  if (max_lse == kEmpty) return row;

  row.weights = clean.unaryExpr([&](double l) { return weight_of(l, max_lse, base); });
  const double sum = row.weights.sum();
  row.weights /= sum;
  row.lse = max_lse + std::log(sum) / log_of(base);
  for (Eigen::Index rank = 0; rank < lse.size(); ++rank) {
    if (row.weights[rank] == 0) continue;
    row.out += row.weights[rank] * outs.col(rank);
    row.weighted_magnitude += row.weights[rank] * outs.col(rank).abs();
  }
  return row;
}

}  // namespace dcp
