#include "reference/observation.hpp"

#include <cmath>

#include "reference/tolerance.hpp"

namespace dcp {

void compare_elements(Comparison& comparison, ElementPlace at, std::span<const float> got,
                      const WantedRow& want, DType dtype) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    at.element = static_cast<int>(i);
    const double right = want.out[at.element];
    const double tolerance = want.out_tolerance[at.element];
    const bool overflow = std::isinf(got[i]) && std::signbit(got[i]) == std::signbit(right) &&
                          may_overflow(dtype, right, tolerance);
    if (!overflow) comparison.add(at, got[i], right, tolerance);
  }
}

void compare_outputs(Comparison& comparison, ElementPlace at, const LayerObservation& observation,
                     const WantedRow& want, DType dtype) {
  const auto head_dim = static_cast<std::size_t>(want.out.size());
  for (std::size_t rank = 0; rank < observation.ranks.size(); ++rank) {
    const RankObservation& observed = observation.ranks[rank];
    const int local_head = at.head - observed.first_out_head;
    if (local_head < 0 || local_head >= observed.num_out_heads) continue;
    at.rank = static_cast<int>(rank);
    at.element = -1;
    const auto index = static_cast<std::size_t>(at.row * observed.num_out_heads + local_head);
    if (!observed.lse.empty()) {
      comparison.add(at, observed.lse[index], want.lse, want.lse_tolerance);
    }
    compare_elements(comparison, at, observed.out.subspan(index * head_dim, head_dim), want, dtype);
  }
}

}  // namespace dcp
