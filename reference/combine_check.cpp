#include "reference/combine_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp {

namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// Element of a hand-written tensor: a scalar stands for all of them. Rows past its end are NaN;
// they are padding, and masked.
float given_element(const GivenTensor& tensor, std::size_t index) {
  if (tensor.shape.empty()) return static_cast<float>(tensor.values.front());
  if (index >= tensor.values.size()) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(tensor.values[index]);
}

}  // namespace

WantedRow wanted_row(const CombinedRow& combined, const CombineTolerance& tolerance) {
  WantedRow want{.out = combined.out,
                 .out_tolerance = Eigen::ArrayXd::Zero(combined.out.size()),
                 .lse = combined.lse,
                 .lse_tolerance = 0};
  if (combined.lse == kEmpty) return want;
  want.lse_tolerance = combined_lse_tolerance(combined.lse);
  for (Eigen::Index i = 0; i < want.out.size(); ++i) {
    want.out_tolerance[i] = tolerance.out(combined.out[i], combined.weighted_magnitude[i]);
  }
  return want;
}

void check_combine(const StepGeometry& geometry, const LayerObservation& observation,
                   Comparison& combine) {
  const auto head_dim = static_cast<std::size_t>(geometry.v_head_dim());
  const ObservedOutput combined_output{observation,
                                       geometry.splits_attention() ? ObservedOutput::Which::kContext
                                                                   : ObservedOutput::Which::kResult,
                                       geometry.dtype()};
  Eigen::ArrayXd lse(geometry.world_size());
  Eigen::ArrayXXd outs(geometry.v_head_dim(), geometry.world_size());
  for (std::int64_t row = 0; row < geometry.num_rows(); ++row) {
    for (int head = 0; head < geometry.num_heads(); ++head) {
      const std::size_t index = geometry.index(row, head);
      for (int rank = 0; rank < geometry.world_size(); ++rank) {
        const RankObservation& observed = observation.ranks[static_cast<std::size_t>(rank)];
        const bool empty = geometry.visible_tokens(row, rank).empty();
        lse[rank] = empty ? kEmpty : observed.partial_lse[index];
        outs.col(rank) = Eigen::Map<const Eigen::ArrayXf>(
                             observed.partial_out.data() + index * head_dim, outs.rows())
                             .cast<double>();
      }
      const CombinedRow combined = dcp::combine(lse, outs, geometry.lse().base);
      compare_outputs(combine, {.row = row, .head = head}, combined_output,
                      wanted_row(combined, geometry.tolerance()));
    }
  }
}

namespace {

// Compares one rank's merge of one row and head that it holds.
void check_merged_row(const StepGeometry& geometry, const LayerObservation& observation,
                      const ElementPlace& at, Comparison& merge) {
  const RankObservation& observed = observation.ranks[static_cast<std::size_t>(at.rank)];
  const auto index = observed.index(at.row, at.head);
  if (!index) return;
  const auto head_dim = static_cast<std::size_t>(geometry.v_head_dim());
  const bool has_new_tokens = geometry.row(at.row).num_keys > 0;
  const Eigen::Array2d lse(observed.context_lse[*index],
                           has_new_tokens ? observed.new_lse[*index] : kEmpty);
  Eigen::ArrayXXd outs(geometry.v_head_dim(), 2);
  const auto column = [&](std::span<const float> out) {
    return Eigen::Map<const Eigen::ArrayXf>(out.data() + *index * head_dim, outs.rows())
        .cast<double>();
  };
  outs.col(0) = column(observed.context_out);
  outs.col(1) = column(observed.new_out);
  compare_output(merge, at, {observation, ObservedOutput::Which::kResult, geometry.dtype()},
                 wanted_row(combine(lse, outs, geometry.lse().base), geometry.merge_tolerance()));
}

}  // namespace

void check_merge(const StepGeometry& geometry, const LayerObservation& observation,
                 Comparison& merge) {
  for (int rank = 0; rank < geometry.world_size(); ++rank) {
    for (std::int64_t row = 0; row < geometry.num_rows(); ++row) {
      for (int head = 0; head < geometry.num_heads(); ++head) {
        check_merged_row(geometry, observation, {.rank = rank, .row = row, .head = head}, merge);
      }
    }
  }
}

CombinedRow combine_given(const StepGeometry& geometry, const DataSpec& given, std::int64_t row,
                          int head) {
  const std::size_t index = geometry.index(row, head);
  Eigen::ArrayXd lse(geometry.world_size());
  Eigen::ArrayXXd outs(geometry.v_head_dim(), geometry.world_size());
  for (int rank = 0; rank < geometry.world_size(); ++rank) {
    const bool empty = geometry.visible_tokens(row, rank).empty();
    const auto r = static_cast<std::size_t>(rank);
    lse[rank] =
        empty ? kEmpty : round_to(geometry.lse().dtype, given_element(given.given_lse[r], index));
    for (Eigen::Index i = 0; i < outs.rows(); ++i) {
      const std::size_t element =
          index * static_cast<std::size_t>(outs.rows()) + static_cast<std::size_t>(i);
      outs(i, rank) = round_to(geometry.dtype(), given_element(given.given_out[r], element));
    }
  }
  return combine(lse, outs, geometry.lse().base);
}

void check_given_step(const StepGeometry& geometry, const DataSpec& given,
                      const LayerObservation& observation, LayerCheck& check) {
  for (std::int64_t row = 0; row < geometry.num_rows(); ++row) {
    for (int head = 0; head < geometry.num_heads(); ++head) {
      const WantedRow want =
          wanted_row(combine_given(geometry, given, row, head), geometry.tolerance());
      compare_outputs(check.step, {.row = row, .head = head},
                      {observation, ObservedOutput::Which::kResult, geometry.dtype()}, want);
      check.expected.lse.push_back(want.lse);
      check.expected.lse_tolerance.push_back(want.lse_tolerance);
      check.expected.out_tolerance.insert(check.expected.out_tolerance.end(),
                                          want.out_tolerance.begin(), want.out_tolerance.end());
      check.expected.out.insert(check.expected.out.end(), want.out.begin(), want.out.end());
    }
  }
}

}  // namespace dcp
