// Partials that the combine takes, and cannot make right.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "harness/audit/result_audit.hpp"
#include "harness/empty_rows.hpp"

namespace dcp {

namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// One row and head of all ranks, as the combine takes them.
struct Contributions {
  std::vector<double> lse;        // [N] -inf for none
  std::vector<const float*> out;  // [N] of `dim` elements
  std::size_t dim;
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

std::optional<audit::Finding> non_finite_partial(const Contributions& all) {
  constexpr int kSmallest = -126;  // weights below 2^-126 count as 0
  for (std::size_t rank = 0; rank < all.lse.size(); ++rank) {
    const double weight = all.weight(rank);
    const float* out = all.out[rank];
    if (weight < std::ldexp(1.0, kSmallest)) continue;
    if (std::all_of(out, out + all.dim, [](float value) { return std::isfinite(value); })) continue;
    return audit::Finding{
        .kind = "non_finite_partial",
        .buffer = "partial_out",
        .rank = static_cast<int>(rank),
        .why = "the partial is infinite or NaN and has weight " + std::to_string(weight),
        .advice = "keep partials finite, or declare the row empty"};
  }
  return std::nullopt;
}

std::optional<audit::Finding> coarse_lse(const Contributions& all, DType dtype) {
  constexpr double kHeavy = 1.0 / 256;
  constexpr double kCoarse = 1.0 / 16;  // weights are wrong by more than 6 percent
  int num_heavy = 0;
  double largest = 0;
  for (std::size_t rank = 0; rank < all.lse.size(); ++rank) {
    if (all.weight(rank) < kHeavy) continue;
    ++num_heavy;
    largest = std::max(largest, std::abs(all.lse[rank]));
  }
  if (num_heavy < 2 || largest == 0 || dtype == DType::kFp32) return std::nullopt;
  const double rounding = rounding_of(largest, dtype);
  if (rounding < kCoarse) return std::nullopt;
  return audit::Finding{.kind = "lse_precision",
                        .buffer = "partial_lse",
                        .why = std::string(name(dtype)) + " rounds an lse of " +
                               std::to_string(largest) + " by up to " + std::to_string(rounding) +
                               ", and " + std::to_string(num_heavy) + " ranks are weighted by it",
                        .advice = "hand the lse over in fp32"};
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
                    .out = std::vector<const float*>(values.ranks.size()),
                    .dim = static_cast<std::size_t>(shape.head_dim),
                    .base = scenario_.lse.base == LseBase::kTwo ? 2.0 : std::exp(1.0)};
  for (std::int64_t row = 0; row < run.step->rows; ++row) {
    for (int head = 0; head < shape.num_heads; ++head) {
      const auto at = static_cast<std::size_t>(row * shape.num_heads + head);
      for (std::size_t r = 0; r < values.ranks.size(); ++r) {
        const auto& lse = values.ranks[r].partial_lse;
        const bool is_empty = lse.empty() || !std::isfinite(lse[at]) ||
                              std::binary_search(empty[r].begin(), empty[r].end(), row);
        all.lse[r] = is_empty ? kEmpty : lse[at];
        all.out[r] = values.ranks[r].partial_out.data() + at * all.dim;
      }
      auto finding = non_finite_partial(all);
      if (!finding) finding = coarse_lse(all, scenario_.lse.dtype);
      if (!finding) continue;
      if (run.step->name != "eager") finding->graph = run.step->name;
      finding->why =
          "row " + std::to_string(row) + ", head " + std::to_string(head) + ": " + finding->why;
      found.push_back(std::move(*finding));
      return;
    }
  }
}

}  // namespace dcp
