#include "harness/weight_faults.hpp"

#include "harness/dump_rows.hpp"

namespace dcp {

namespace {

// Relative error of a weight that was computed in fp32: a rounding to 16 bits that is nearer to a
// tie than this may fall either way.
constexpr double kWeightError = 32 * 0x1p-24;

double power(LseBase base, double exponent) { return std::exp(exponent * log_of(base)); }

double max_lse(const Eigen::ArrayXd& lse) {
  double max = DumpRows::kEmpty;
  for (const double l : lse) {
    if (std::isfinite(l)) max = std::max(max, l);
  }
  return max;
}

// Sum of weights[r] * outs[r] over ranks of weight > 0.
PredictedRow weighted_sum(const Eigen::ArrayXd& weights, const Eigen::ArrayXXd& outs, double lse) {
  PredictedRow row{.out = Eigen::ArrayXd::Zero(outs.rows()),
                   .magnitude = Eigen::ArrayXd::Zero(outs.rows()),
                   .slack = Eigen::ArrayXd::Zero(outs.rows()),
                   .lse = lse};
  for (Eigen::Index rank = 0; rank < weights.size(); ++rank) {
    if (weights[rank] == 0) continue;
    row.out += weights[rank] * outs.col(rank);
    row.magnitude += weights[rank] * outs.col(rank).abs();
  }
  return row;
}

double rounded(DType dtype, double value) { return round_to(dtype, static_cast<float>(value)); }

// How far apart the two results of a rounding are that may fall either way; else 0.
double rounding_doubt(DType dtype, double value) {
  return rounded(dtype, value * (1 + kWeightError)) - rounded(dtype, value * (1 - kWeightError));
}

PredictedRow with_rounded_weights(const DumpRows& rows, std::int64_t row, int head, DType dtype) {
  const Eigen::ArrayXXd outs = rows.outs(row, head);
  const CombinedRow right = combine(rows.lse(row, head), outs, rows.partials().lse.base);
  const Eigen::ArrayXd weights =
      right.weights.unaryExpr([&](double w) { return rounded(dtype, w); });
  PredictedRow result = weighted_sum(weights, outs, right.lse);
  for (Eigen::Index rank = 0; rank < weights.size(); ++rank) {
    const double doubt = rounding_doubt(dtype, right.weights[rank]);
    if (doubt > 0) result.slack += doubt * outs.col(rank).abs();
  }
  return result;
}

// Rounded before they are added up and divided by their sum.
PredictedRow with_rounded_powers(const DumpRows& rows, std::int64_t row, int head, DType dtype) {
  const LseBase base = rows.partials().lse.base;
  const Eigen::ArrayXXd outs = rows.outs(row, head);
  const Eigen::ArrayXd lse = rows.lse(row, head);
  const CombinedRow right = combine(lse, outs, base);
  const double max = max_lse(lse);
  if (max == DumpRows::kEmpty) return predicted(right);
  const double scale = power(base, right.lse - max);  // powers = weights * their sum
  Eigen::ArrayXd weights =
      right.weights.unaryExpr([&](double w) { return rounded(dtype, w * scale); });
  const double sum = weights.sum();
  weights /= sum;
  PredictedRow result = weighted_sum(weights, outs, max + std::log(sum) / log_of(base));
  for (Eigen::Index rank = 0; rank < weights.size(); ++rank) {
    const double doubt = rounding_doubt(dtype, right.weights[rank] * scale) / sum;
    if (doubt > 0) result.slack += doubt * (outs.col(rank).abs() + result.magnitude);
  }
  return result;
}

PredictedRow with_rounded_lse(const DumpRows& rows, std::int64_t row, int head, DType dtype) {
  const Eigen::ArrayXd lse =
      rows.lse(row, head).unaryExpr([&](double l) { return rounded(dtype, l); });
  return predicted(combine(lse, rows.outs(row, head), rows.partials().lse.base));
}

// Also ranks of weight 0 are multiplied: 0 * NaN is NaN.
PredictedRow with_every_product(const DumpRows& rows, std::int64_t row, int head) {
  const Eigen::ArrayXXd outs = rows.outs(row, head);
  const CombinedRow right = combine(rows.lse(row, head), outs, rows.partials().lse.base);
  PredictedRow result = predicted(right);
  for (Eigen::Index rank = 0; rank < right.weights.size(); ++rank) {
    if (right.weights[rank] == 0) result.out += 0.0 * outs.col(rank);
  }
  return result;
}

PredictedRow not_normalised(const DumpRows& rows, std::int64_t row, int head) {
  const LseBase base = rows.partials().lse.base;
  const Eigen::ArrayXd lse = rows.lse(row, head);
  const Eigen::ArrayXXd outs = rows.outs(row, head);
  const CombinedRow right = combine(lse, outs, base);
  const double max = max_lse(lse);
  if (max == DumpRows::kEmpty) return predicted(right);
  return weighted_sum(right.weights * power(base, right.lse - max), outs, right.lse);
}

// b^(l_r - lse), where the lse is an fp32 number: the weights do not add up to 1.
PredictedRow with_weights_of_rounded_lse(const DumpRows& rows, const EngineDump& dump,
                                         std::int64_t row, int head) {
  const LseBase base = rows.partials().lse.base;
  const Eigen::ArrayXd lse = rows.lse(row, head);
  const Eigen::ArrayXXd outs = rows.outs(row, head);
  const CombinedRow right = combine(lse, outs, base);
  double divisor = static_cast<float>(right.lse);
  if (dump.has_lse()) divisor = dump.engine_lse(row, head);  // what it really divided by
  if (!std::isfinite(divisor) || right.lse == DumpRows::kEmpty) return predicted(right);
  Eigen::ArrayXd weights = Eigen::ArrayXd::Zero(lse.size());
  for (Eigen::Index rank = 0; rank < lse.size(); ++rank) {
    if (right.weights[rank] > 0) weights[rank] = power(base, lse[rank] - divisor);
  }
  return weighted_sum(weights, outs, right.lse);
}

}  // namespace

PredictedRow predicted(const CombinedRow& combined) {
  return {.out = combined.out,
          .magnitude = combined.weighted_magnitude,
          .slack = Eigen::ArrayXd::Zero(combined.out.size()),
          .lse = combined.lse};
}

void add_weight_faults(const EngineDump& dump, std::vector<EngineFault>& faults) {
  const DumpRows rows(dump);
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    const std::string in_dtype = " rounded to " + std::string(name(dtype));
    faults.push_back(
        {"weights_16bit", "the weights were" + in_dtype, [rows, dtype](std::int64_t row, int head) {
           return with_rounded_weights(rows, row, head, dtype);
         }});
    faults.push_back({"weights_16bit", "the powers of the lse were" + in_dtype,
                      [rows, dtype](std::int64_t row, int head) {
                        return with_rounded_powers(rows, row, head, dtype);
                      }});
    faults.push_back({"lse_16bit", "the lse of the partials was" + in_dtype,
                      [rows, dtype](std::int64_t row, int head) {
                        return with_rounded_lse(rows, row, head, dtype);
                      }});
  }
  faults.push_back(
      {"weight_times_nan", "partials of weight 0 were multiplied: 0 * NaN is NaN",
       [rows](std::int64_t row, int head) { return with_every_product(rows, row, head); }});
  faults.push_back(
      {"not_normalised", "the weights were not divided by their sum",
       [rows](std::int64_t row, int head) { return not_normalised(rows, row, head); }});
  faults.push_back({"lse_rounded_in_weights",
                    "weights were taken as powers of l_r - lse, whose rounding keeps them from "
                    "adding up to 1",
                    [rows, &dump](std::int64_t row, int head) {
                      return with_weights_of_rounded_lse(rows, dump, row, head);
                    }});
}

}  // namespace dcp
