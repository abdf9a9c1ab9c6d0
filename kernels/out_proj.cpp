#include "kernels/out_proj.hpp"

#include "kernels/accesses.hpp"
#include "kernels/strided_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

template <class In, class Out>
void project_rows(const OutProj::Params& params) {
  const auto* out = static_cast<const In*>(params.out.data);
  auto* query = static_cast<Out*>(params.next_query.data);
  const std::int64_t shift = std::int64_t{7} * params.layer;
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    for (int head = 0; head < params.num_heads; ++head) {
      const StridedRow<Out> to{query + params.next_query.strides.offset(token, head),
                               params.next_query.strides.element};
      if (params.zero != 0) {
        fill_row<OneLane>(to, params.qk_head_dim, 0.0f);
        continue;
      }
      const StridedRow<const In> from{out + params.out.strides.offset(token, head),
                                      params.out.strides.element};
      normalise_row<OneLane>(from, to, {params.v_head_dim, params.qk_head_dim, shift});
    }
  }
}

}  // namespace

void OutProj::accesses(const Params& params, std::vector<Access>& out) {
  if (params.zero == 0) {
    declare_read(out, params.out, {params.num_tokens, params.num_heads, params.v_head_dim}, "out");
  }
  declare_write(out, params.next_query, {params.num_tokens, params.num_heads, params.qk_head_dim},
                "next_query");
}

void OutProj::run(const Params& params) {
  dispatch_dtype(params.out.dtype, [&]<class In>() {
    dispatch_dtype(params.next_query.dtype, [&]<class Out>() { project_rows<In, Out>(params); });
  });
}

}  // namespace dcp
