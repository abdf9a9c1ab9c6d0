#include "kernels/split_combine.hpp"

#include <cmath>
#include <limits>

#include "kernels/accesses.hpp"
#include "kernels/combine_row.hpp"
#include "kernels/row_attention.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

template <LseBase kBase, class Out>
class SplitRows {
 public:
  explicit SplitRows(const SplitCombine::Params& params)
      : params_(params), factors_(static_cast<std::size_t>(params.num_splits)) {}

  void combine(std::int64_t token, int head) {
    const std::int64_t row = token * params_.num_heads + head;
    const std::int64_t num_rows = params_.num_tokens * params_.num_heads;
    const auto lse_of = [&](int split) { return params_.split_lse[split * num_rows + row]; };
    const auto row_of = [&](int split) {
      return params_.split_out + (split * num_rows + row) * params_.head_dim;
    };
    const StridedRow<Out> out{
        static_cast<Out*>(params_.out.data) + params_.out.strides.offset(token, head),
        params_.out.strides.element};
    const auto lse_at = static_cast<std::size_t>(params_.lse.strides.offset(token, head));
    for (int split = 0; split < params_.num_splits; ++split) {
      if (!std::isnan(lse_of(split))) continue;
      constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
      fill_row<OneLane>(out, params_.head_dim, kNan);
      store_element(params_.lse.data, params_.lse.dtype, lse_at, kNan);
      return;
    }
    const LseSum total = rank_factors<kBase, OneLane>(params_.num_splits, lse_of, factors_.data());
    sum_rank_rows<OneLane>(factors_.data(), params_.num_splits, params_.head_dim, row_of, out);
    store_element(params_.lse.data, params_.lse.dtype, lse_at, combined_lse<kBase>(total));
  }

 private:
  const SplitCombine::Params& params_;
  std::vector<float> factors_;  // [S]
};

template <LseBase kBase, class Out>
void combine_splits(const SplitCombine::Params& params) {
  SplitRows<kBase, Out> rows(params);
  const RowTarget target{params.out, params.lse, params.num_heads, params.head_dim};
  const auto mode = static_cast<EmptyRowMode>(*params.empty_row_mode);
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    if (row_is_empty(params.batch, token)) {
      const bool is_padding = request_of_row(params.batch, token) >= params.batch.num_requests;
      fill_empty_row(mode, target, token, is_padding);
      continue;
    }
    for (int head = 0; head < params.num_heads; ++head) rows.combine(token, head);
  }
}

}  // namespace

void SplitCombine::accesses(const Params& params, std::vector<Access>& out) {
  const std::int64_t states = params.num_splits * params.num_tokens * params.num_heads;
  constexpr std::int64_t kFloat = sizeof(float);
  declare(out, params.split_out, states * params.head_dim * kFloat, Mode::kRead, "split_out");
  declare(out, params.split_lse, states * kFloat, Mode::kRead, "split_lse");
  declare_batch(out, params.batch, params.num_tokens);
  declare_write(out, params.out, {params.num_tokens, params.num_heads, params.head_dim}, "out");
  declare_write(out, params.lse, {params.num_tokens, params.num_heads, 1}, "lse");
  declare(out, params.empty_row_mode, sizeof(std::int32_t), Mode::kRead, "empty_row_mode");
  if (params.num_tokens == 0) touch_none(out);
}

void SplitCombine::run(const Params& params) {
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class Out>() { combine_splits<kBase, Out>(params); });
  });
}

}  // namespace dcp
