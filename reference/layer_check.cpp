#include "reference/layer_check.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "reference/attention_check.hpp"
#include "reference/combine_check.hpp"

namespace dcp {

namespace {

void require_size(std::string_view tensor, std::size_t got, std::int64_t want) {
  if (got == static_cast<std::size_t>(want)) return;
  throw std::invalid_argument(std::string(tensor) + " has " + std::to_string(got) +
                              " elements, the step needs " + std::to_string(want));
}

void require_sizes(const StepGeometry& geometry, const LayerObservation& observation) {
  const std::int64_t rows = geometry.num_rows();
  const std::int64_t heads = rows * geometry.num_heads();
  require_size("query", observation.query.size(), heads * geometry.qk_head_dim());
  require_size("ranks", observation.ranks.size(), geometry.world_size());
  for (const RankObservation& rank : observation.ranks) {
    if (!rank.is_there()) continue;
    require_size("partial_out", rank.partial_out.size(), heads * geometry.v_head_dim());
    require_size("partial_lse", rank.partial_lse.size(), heads);
    require_size("out", rank.out.size(), rows * rank.num_out_heads * geometry.v_head_dim());
    if (!rank.lse.empty()) require_size("lse", rank.lse.size(), rows * rank.num_out_heads);
    if (!geometry.splits_attention()) continue;
    require_size("context_out", rank.context_out.size(),
                 rows * rank.num_out_heads * geometry.v_head_dim());
    require_size("context_lse", rank.context_lse.size(), rows * rank.num_out_heads);
    require_size("new_out", rank.new_out.size(), rows * rank.num_out_heads * geometry.v_head_dim());
    require_size("new_lse", rank.new_lse.size(), rows * rank.num_out_heads);
  }
}

}  // namespace

StepReference::StepReference(const Scenario& scenario, const Batch& batch, std::int64_t num_rows,
                             std::string_view strategy)
    : geometry_(scenario, batch, num_rows, strategy), data_(scenario), given_(scenario.data) {}

LayerCheck StepReference::check_layer(const LayerObservation& observation,
                                      const CheckOptions& options) const {
  require_sizes(geometry_, observation);
  LayerCheck check;
  const bool all_there = std::all_of(observation.ranks.begin(), observation.ranks.end(),
                                     [](const RankObservation& rank) { return rank.is_there(); });
  // A combine is checked against the partials of all ranks.
  if (all_there) check_combine(geometry_, observation, check.combine);
  if (geometry_.splits_attention()) check_merge(geometry_, observation, check.merge);
  if (given_.kind == DataKind::kGiven) {
    if (options.step) check_given_step(geometry_, given_, observation, check);
  } else if (options.partial || options.step) {
    check_attention(geometry_, data_, observation, options, check);
  }
  return check;
}

std::vector<std::int64_t> StepReference::empty_rows() const {
  std::vector<std::int64_t> empty;
  for (std::int64_t row = 0; row < geometry_.num_rows(); ++row) {
    bool has_keys = geometry_.row(row).num_keys > 0;
    if (has_keys && given_.kind == DataKind::kGiven) {
      has_keys = false;
      for (int head = 0; head < geometry_.num_heads() && !has_keys; ++head) {
        has_keys = combine_given(geometry_, given_, row, head).lse !=
                   -std::numeric_limits<double>::infinity();
      }
    }
    if (!has_keys) empty.push_back(row);
  }
  return empty;
}

}  // namespace dcp
