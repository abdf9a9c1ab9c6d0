#include "harness/engine_check.hpp"

#include <algorithm>
#include <cmath>

#include "harness/engine_faults.hpp"

namespace dcp {

namespace {

bool is_near(double got, double want, double tolerance) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  return got == want || std::abs(got - want) <= tolerance;
}

// A fault's prediction beside the numbers of every rank that keeps the head.
class Reproduction {
 public:
  explicit Reproduction(const EngineDump& dump) : dump_(dump) {}

  // Looks at `first` before all else: where the result is wrong, a fault that did not happen shows.
  bool of_all(const EngineFault& fault, const ElementPlace& first) const {
    if (!of_row(fault, first.row, first.head)) return false;
    for (std::int64_t row = 0; row < dump_.partials.num_tokens; ++row) {
      for (int head = 0; head < dump_.partials.num_heads; ++head) {
        if (!of_row(fault, row, head)) return false;
      }
    }
    return true;
  }

 private:
  bool of_row(const EngineFault& fault, std::int64_t row, int head) const {
    const PredictedRow want = fault.predict(row, head);
    for (int rank = 0; rank < dump_.partials.world_size; ++rank) {
      const auto index = dump_.index_on(rank, row, head);
      if (index && !of_rank(dump_.engine.ranks[static_cast<std::size_t>(rank)], *index, want)) {
        return false;
      }
    }
    return true;
  }

  bool of_rank(const RankCombined& got, std::size_t index, const PredictedRow& want) const {
    if (!got.lse.empty() && !is_near(got.lse[index], want.lse, combined_lse_tolerance(want.lse))) {
      return false;
    }
    if (got.out.empty()) return true;
    const DType dtype = dump_.partials.dtype;
    for (Eigen::Index i = 0; i < want.out.size(); ++i) {
      const double value = load_element(
          got.out.data(), dtype,
          index * static_cast<std::size_t>(want.out.size()) + static_cast<std::size_t>(i));
      const double right = want.out[i];
      const double tolerance = dump_.tolerance.out(right, want.magnitude[i]) + want.slack[i];
      const bool overflow = std::isinf(value) && std::signbit(value) == std::signbit(right) &&
                            may_overflow(dtype, right, tolerance);
      if (!overflow && !is_near(value, right, tolerance)) return false;
    }
    return true;
  }

  const EngineDump& dump_;
};

}  // namespace

EngineVerdict check_engine(const EngineDump& dump, std::span<const CombinedRow> right) {
  EngineVerdict verdict{.has_out = dump.has_out(),
                        .has_lse = dump.has_lse(),
                        .engine = check_combined(dump.partials, dump.engine, right, dump.tolerance),
                        .explanations = {}};
  if (verdict.passed()) return verdict;
  const auto& bad =
      verdict.engine.out.first_bad ? verdict.engine.out.first_bad : verdict.engine.lse.first_bad;
  const Reproduction reproduction(dump);
  for (const EngineFault& fault : engine_faults(dump)) {
    const bool is_known =
        std::any_of(verdict.explanations.begin(), verdict.explanations.end(),
                    [&](const Explanation& known) { return known.name == fault.name; });
    if (is_known || !reproduction.of_all(fault, bad->at)) continue;
    verdict.explanations.push_back({fault.name, fault.text});
  }
  return verdict;
}

}  // namespace dcp
