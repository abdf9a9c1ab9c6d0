#include "reference/wanted_row.hpp"

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

namespace {

struct RankOutput {
  std::span<const float> out;
  std::span<const float> lse;
};

RankOutput output_of(const RankObservation& rank, ObservedOutput::Which which) {
  switch (which) {
    case ObservedOutput::Which::kContext:
      return {rank.context_out, rank.context_lse};
    case ObservedOutput::Which::kNewTokens:
      return {rank.new_out, rank.new_lse};
    case ObservedOutput::Which::kResult:
      break;
  }
  return {rank.out, rank.lse};
}

}  // namespace

void compare_output(Comparison& comparison, ElementPlace at, const ObservedOutput& observed,
                    const WantedRow& want) {
  const RankObservation& rank = observed.layer.ranks[static_cast<std::size_t>(at.rank)];
  const auto index = rank.index(at.row, at.head);
  if (!index) return;
  const RankOutput output = output_of(rank, observed.which);
  at.layer = observed.layer.layer;
  at.element = -1;
  if (!output.lse.empty()) {
    comparison.add(at, output.lse[*index], want.lse, want.lse_tolerance);
  }
  const auto head_dim = static_cast<std::size_t>(want.out.size());
  compare_elements(comparison, at, output.out.subspan(*index * head_dim, head_dim), want,
                   observed.dtype);
}

void compare_outputs(Comparison& comparison, ElementPlace at, const ObservedOutput& observed,
                     const WantedRow& want) {
  for (std::size_t rank = 0; rank < observed.layer.ranks.size(); ++rank) {
    at.rank = static_cast<int>(rank);
    compare_output(comparison, at, observed, want);
  }
}

}  // namespace dcp
