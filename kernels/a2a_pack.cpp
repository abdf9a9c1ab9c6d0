#include "kernels/a2a_pack.hpp"

#include "kernels/accesses.hpp"
#include "kernels/packed_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

PackedRows packed_rows(const A2aPack::Params& params) {
  return {.num_tokens = params.num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.num_heads / params.world_size,
          .head_dim = params.head_dim,
          .dtype = params.out.dtype,
          .layout = params.layout};
}

template <class T, class Lse>
void pack_rows(const A2aPack::Params& params) {
  const PackedRows packed = packed_rows(params);
  const auto* out = static_cast<const T*>(params.out.data);
  const auto* lse = static_cast<const Lse*>(params.lse.data);
  auto* send = static_cast<T*>(params.send);
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    const bool is_empty = params.empty.has(token);
    for (int head = 0; head < params.num_heads; ++head) {
      const int peer = head / packed.heads_per_rank;
      const int local_head = head % packed.heads_per_rank;
      move_payload<OneLane>(StridedRow<const T>{out + params.out.strides.offset(token, head),
                                                params.out.strides.element},
                            send + packed.payload_offset(peer, token, local_head), params.head_dim);
      store_lse_lanes(send + packed.lse_offset(peer, token, local_head),
                      masked_lse_bits(lse[params.lse.strides.offset(token, head)], is_empty));
    }
  }
}

}  // namespace

void A2aPack::accesses(const Params& params, std::vector<Access>& out) {
  declare_read(out, params.out, {params.num_tokens, params.num_heads, params.head_dim}, "out");
  declare_read(out, params.lse, {params.num_tokens, params.num_heads, 1}, "lse");
  declare(out, params.send,
          params.world_size * packed_rows(params).elements_per_peer() *
              static_cast<std::int64_t>(size_bytes(params.out.dtype)),
          Mode::kWrite, "send");
  declare_empty(out, params.empty, params.num_tokens);
}

void A2aPack::run(const Params& params) {
  dispatch_dtype(params.out.dtype, [&]<class T>() {
    dispatch_dtype(params.lse.dtype, [&]<class Lse>() { pack_rows<T, Lse>(params); });
  });
}

}  // namespace dcp
