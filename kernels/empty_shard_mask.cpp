#include "kernels/empty_shard_mask.hpp"

#include <bit>

#include "kernels/accesses.hpp"
#include "kernels/packed_row.hpp"

namespace dcp {

void EmptyShardMask::accesses(const Params& params, std::vector<Access>& out) {
  const std::int64_t count = params.num_tokens * params.num_heads;
  declare_read(out, params.lse, {params.num_tokens, params.num_heads, 1}, "lse");
  declare(out, params.masked, count * static_cast<std::int64_t>(sizeof(float)), Mode::kWrite,
          "masked");
  declare_empty(out, params.empty, params.num_tokens);
}

void EmptyShardMask::run(const Params& params) {
  dispatch_dtype(params.lse.dtype, [&]<class Lse>() {
    const auto* lse = static_cast<const Lse*>(params.lse.data);
    for (std::int64_t token = 0; token < params.num_tokens; ++token) {
      const bool is_empty = params.empty.has(token);
      for (int head = 0; head < params.num_heads; ++head) {
        params.masked[token * params.num_heads + head] = std::bit_cast<float>(
            masked_lse_bits(lse[params.lse.strides.offset(token, head)], is_empty));
      }
    }
  });
}

}  // namespace dcp
