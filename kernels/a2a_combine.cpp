#include "kernels/a2a_combine.hpp"

#include "kernels/accesses.hpp"
#include "kernels/combine_row.hpp"
#include "kernels/packed_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

PackedRows packed_rows(const A2aCombine::Params& params) {
  return {.num_tokens = params.num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.heads_per_rank,
          .head_dim = params.head_dim,
          .dtype = params.out.dtype,
          .layout = params.layout};
}

template <LseBase kBase, class T>
void combine_rows(const A2aCombine::Params& params) {
  const PackedRows packed = packed_rows(params);
  const auto* recv = static_cast<const T*>(params.recv);
  auto* out = static_cast<T*>(params.out.data);
  std::vector<float> factors(static_cast<std::size_t>(params.world_size));
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    for (int head = 0; head < params.heads_per_rank; ++head) {
      const auto lse_of = [&](int rank) {
        return load_lse_lanes(recv + packed.lse_offset(rank, token, head));
      };
      const auto row_of = [&](int rank) { return recv + packed.payload_offset(rank, token, head); };
      const LseSum total = rank_factors<kBase, OneLane>(params.world_size, lse_of, factors.data());
      sum_rank_rows<OneLane>(
          factors.data(), params.world_size, params.head_dim, row_of,
          StridedRow<T>{out + params.out.strides.offset(token, head), params.out.strides.element});
      if (params.lse != nullptr) {
        params.lse[token * params.heads_per_rank + head] = combined_lse<kBase>(total);
      }
    }
  }
}

}  // namespace

void A2aCombine::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.recv,
          params.world_size * packed_rows(params).elements_per_peer() *
              static_cast<std::int64_t>(size_bytes(params.out.dtype)),
          Mode::kRead, "recv");
  declare_write(out, params.out, {params.num_tokens, params.heads_per_rank, params.head_dim},
                "out");
  if (params.lse == nullptr) return;
  declare(out, params.lse,
          params.num_tokens * params.heads_per_rank * static_cast<std::int64_t>(sizeof(float)),
          Mode::kWrite, "lse");
}

void A2aCombine::run(const Params& params) {
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() { combine_rows<kBase, T>(params); });
  });
}

}  // namespace dcp
