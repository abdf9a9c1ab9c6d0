#include "kernels/lse_correct.hpp"

#include <limits>

#include "kernels/accesses.hpp"
#include "kernels/empty_ranks.hpp"
#include "kernels/lse_weights.hpp"
#include "kernels/strided_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

template <LseBase kBase, class In, class Out>
void scale_rows(const LseCorrect::Params& params) {
  const auto* out = static_cast<const In*>(params.out.data);
  auto* scaled = static_cast<Out*>(params.scaled.data);
  const std::int64_t num_rows = params.num_tokens * params.num_heads;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t token = row / params.num_heads;
    const int head = static_cast<int>(row % params.num_heads);
    const std::uint64_t empty_ranks = params.empty_ranks == nullptr ? 0 : params.empty_ranks[token];
    const auto lse_of = [&](int rank) {
      return is_empty_on(empty_ranks, rank) ? -std::numeric_limits<float>::infinity()
                                            : params.lses[rank * num_rows + row];
    };
    const LseSum total = sum_lses<kBase, OneLane>(params.world_size, lse_of);

    const float factor = rank_factor<kBase>(lse_of(params.rank), total);
    scale_row<OneLane>(StridedRow<const In>{out + params.out.strides.offset(token, head),
                                            params.out.strides.element},
                       StridedRow<Out>{scaled + params.scaled.strides.offset(token, head),
                                       params.scaled.strides.element},
                       params.head_dim, factor);

    const int lse_head = head - params.first_lse_head;
    if (params.lse != nullptr && lse_head >= 0 && lse_head < params.num_lse_heads) {
      params.lse[token * params.num_lse_heads + lse_head] = combined_lse<kBase>(total);
    }
  }
}

}  // namespace

void LseCorrect::accesses(const Params& params, std::vector<Access>& out) {
  constexpr std::int64_t kFloat = sizeof(float);
  const ViewShape shape{params.num_tokens, params.num_heads, params.head_dim};
  declare(out, params.lses, params.world_size * params.num_tokens * params.num_heads * kFloat,
          Mode::kRead, "lses");
  declare_empty(out, {params.empty_ranks, params.rank}, params.num_tokens);
  declare_read(out, params.out, shape, "out");
  declare_write(out, params.scaled, shape, "scaled");
  if (params.lse == nullptr) return;
  declare(out, params.lse, params.num_tokens * params.num_lse_heads * kFloat, Mode::kWrite, "lse");
}

void LseCorrect::run(const Params& params) {
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class In>() {
      dispatch_dtype(params.scaled.dtype, [&]<class Out>() { scale_rows<kBase, In, Out>(params); });
    });
  });
}

}  // namespace dcp
