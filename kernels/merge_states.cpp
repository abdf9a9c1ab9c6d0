#include "kernels/merge_states.hpp"

#include <limits>

#include "kernels/accesses.hpp"
#include "kernels/combine_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

template <LseBase kBase, class T>
void merge_rows(const MergeStates::Params& params) {
  constexpr float kEmpty = -std::numeric_limits<float>::infinity();
  const T* outs[] = {static_cast<const T*>(params.context_out),
                     static_cast<const T*>(params.new_out)};
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    const bool no_new_token = row_is_empty(params.batch, token);
    for (int head = 0; head < params.num_heads; ++head) {
      const std::int64_t row = token * params.num_heads + head;
      const float lses[] = {params.context_lse[row], no_new_token ? kEmpty : params.new_lse[row]};
      const auto lse_of = [&](int state) { return lses[state]; };
      const auto row_of = [&](int state) { return outs[state] + row * params.head_dim; };
      float factors[2];
      const LseSum total = rank_factors<kBase, OneLane>(2, lse_of, factors);
      sum_rank_rows<OneLane>(
          factors, 2, params.head_dim, row_of,
          StridedRow<T>{static_cast<T*>(params.out.data) + params.out.strides.offset(token, head),
                        params.out.strides.element});
      if (params.lse != nullptr) params.lse[row] = combined_lse<kBase>(total);
    }
  }
}

}  // namespace

void MergeStates::accesses(const Params& params, std::vector<Access>& out) {
  const std::int64_t rows = params.num_tokens * params.num_heads;
  const std::int64_t out_bytes =
      rows * params.head_dim * static_cast<std::int64_t>(size_bytes(params.out.dtype));
  const std::int64_t lse_bytes = rows * static_cast<std::int64_t>(sizeof(float));
  declare(out, params.context_out, out_bytes, Mode::kRead, "context_out");
  declare(out, params.context_lse, lse_bytes, Mode::kRead, "context_lse");
  declare(out, params.new_out, out_bytes, Mode::kRead, "new_out");
  declare(out, params.new_lse, lse_bytes, Mode::kRead, "new_lse");
  declare_batch(out, params.batch, params.num_tokens);
  declare_write(out, params.out, {params.num_tokens, params.num_heads, params.head_dim}, "out");
  if (params.lse != nullptr) declare(out, params.lse, lse_bytes, Mode::kWrite, "lse");
  if (params.num_tokens == 0) touch_none(out);
}

void MergeStates::run(const Params& params) {
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() { merge_rows<kBase, T>(params); });
  });
}

}  // namespace dcp
