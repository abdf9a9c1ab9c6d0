#include "reference/step_geometry.hpp"

#include <algorithm>

namespace dcp {

namespace {

OutputRounding rounding_of(const Scenario& scenario, std::string_view strategy) {
  const bool reduces = strategy == "ag_rs" || strategy == "ag_ar";
  return reduces && scenario.reduce_dtype == ReduceDtype::kSame ? OutputRounding::kTerms
                                                                : OutputRounding::kOnce;
}

}  // namespace

StepGeometry::StepGeometry(const Scenario& scenario, const Batch& batch, std::int64_t num_rows,
                           std::string_view strategy)
    : num_heads_(scenario.group_num_heads()),
      qk_head_dim_(scenario.model.qk_head_dim()),
      v_head_dim_(scenario.model.v_head_dim()),
      num_kv_heads_(scenario.group_num_kv_heads()),
      value_is_in_key_(scenario.model.attention == Attention::kMla),
      splits_attention_(scenario.attention_split == AttentionSplit::kContextThenNew),
      lse_(scenario.lse),
      kv_dtype_(scenario.kv_dtype()),
      softmax_scale_(scenario.model.softmax_scale),
      tolerance_{.rounding = rounding_of(scenario, strategy),
                 .world_size = scenario.world_size,
                 .dtype = scenario.dtype},
      rows_(list_row_keys(batch, num_rows)) {
  const std::vector<std::int64_t> boundaries = row_boundaries(batch);
  for (std::size_t request = 0; request < batch.seq_lens.size(); ++request) {
    const std::int64_t num_new = boundaries[request + 1] - boundaries[request];
    num_context_.push_back(std::max<std::int64_t>(0, batch.seq_lens[request] - num_new));
    owners_.push_back(list_owners(scenario, batch, static_cast<int>(request)));
    tokens_.push_back(list_tokens(owners_.back(), scenario.world_size));
  }
}

std::span<const std::ptrdiff_t> StepGeometry::visible_tokens(std::int64_t row, int rank) const {
  const RowKeys& keys = this->row(row);
  if (keys.request < 0) return {};
  const auto& owned =
      tokens_[static_cast<std::size_t>(keys.request)][static_cast<std::size_t>(rank)];
  const auto end = std::lower_bound(owned.begin(), owned.end(),
                                    splits_attention_ ? keys.num_context : keys.num_keys);
  return {owned.begin(), end};
}

}  // namespace dcp
