// Partials that the combine takes, and cannot make right.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/audit/result_audit.hpp"
#include "harness/empty_rows.hpp"

namespace dcp {

namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// The lse of one row and head on each rank as the combine takes them, -inf for none.
struct Contributions {
  std::vector<double> lse;
  double base;

  double weight(std::size_t rank) const {
    const double most = *std::max_element(lse.begin(), lse.end());
    return most == kEmpty ? 0 : std::pow(base, lse[rank] - most);
  }
};

// Half a unit in the last place of a value stored in the type.
double rounding_of(double value, DType dtype) {
  const int precision = dtype == DType::kBf16 ? 8 : dtype == DType::kFp16 ? 11 : 24;
  return std::ldexp(0.5, std::ilogb(value) - (precision - 1));
}

audit::Finding finding_of(const StepRun& run, int rank, std::int64_t row, int head) {
  audit::Finding finding{.kind = "", .rank = rank};
  if (run.step->name != "eager") finding.graph = run.step->name;
  finding.why = "row " + std::to_string(row) + ", head " + std::to_string(head) + ": ";
  return finding;
}

}  // namespace

// A partial that attention made is compared with a reference; what was given is not.
void ResultAudit::check_values(Engine& engine, const StepRun& run, audit::Findings& found) const {
  const bool given = scenario_.data.kind == DataKind::kGiven;
  if (!given && scenario_.lse.dtype == DType::kFp32) return;
  const StepShape& shape = run.step->ranks[0].shape;
  const LayerValues values = engine.read_layer(run, 0);
  std::vector<std::vector<std::int64_t>> empty;
  for (std::size_t r = 0; r < values.ranks.size(); ++r) {
    empty.push_back(empty_rows_of(scenario_, run, static_cast<int>(r)));
  }
  Contributions all{.lse = std::vector<double>(values.ranks.size()),
                    .base = scenario_.lse.base == LseBase::kTwo ? 2.0 : std::exp(1.0)};
  const auto heads = static_cast<std::size_t>(shape.num_heads);
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  for (std::int64_t row = 0; row < run.step->rows; ++row) {
    for (int head = 0; head < shape.num_heads; ++head) {
      const std::size_t at = static_cast<std::size_t>(row) * heads + static_cast<std::size_t>(head);
      for (std::size_t r = 0; r < values.ranks.size(); ++r) {
        const auto& lse = values.ranks[r].partial_lse;
        const bool is_empty = lse.empty() || !std::isfinite(lse[at]) ||
                              std::binary_search(empty[r].begin(), empty[r].end(), row);
        all.lse[r] = is_empty ? kEmpty : lse[at];
      }
      int num_heavy = 0;
      double largest = 0;
      for (std::size_t r = 0; r < values.ranks.size(); ++r) {
        const double weight = all.weight(r);
        if (weight < std::ldexp(1.0, -126)) continue;
        num_heavy += weight > std::ldexp(1.0, -8) ? 1 : 0;
        largest = std::max(largest, std::abs(all.lse[r]));
        const float* out = values.ranks[r].partial_out.data() + at * dim;
        if (std::all_of(out, out + dim, [](float value) { return std::isfinite(value); })) continue;
        audit::Finding finding = finding_of(run, static_cast<int>(r), row, head);
        finding.kind = "non_finite_partial";
        finding.buffer = "partial_out";
        finding.why += "the partial is infinite or NaN and has weight " + std::to_string(weight);
        finding.advice = "keep partials finite, or declare the row empty";
        found.push_back(std::move(finding));
        return;
      }
      constexpr double kCoarse = 1.0 / 16;  // weights are wrong by more than 6 percent
      if (num_heavy < 2 || largest == 0 || scenario_.lse.dtype == DType::kFp32) continue;
      const double rounding = rounding_of(largest, scenario_.lse.dtype);
      if (rounding < kCoarse) continue;
      audit::Finding finding = finding_of(run, -1, row, head);
      finding.kind = "lse_precision";
      finding.buffer = "partial_lse";
      finding.why += std::string(name(scenario_.lse.dtype)) + " rounds an lse of " +
                     std::to_string(largest) + " by up to " + std::to_string(rounding) + ", and " +
                     std::to_string(num_heavy) + " ranks are weighted by it";
      finding.advice = "hand the lse over in fp32";
      found.push_back(std::move(finding));
      return;
    }
  }
}

}  // namespace dcp
