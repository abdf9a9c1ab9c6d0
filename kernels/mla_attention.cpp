#include "kernels/mla_attention.hpp"

#include "kernels/accesses.hpp"
#include "kernels/paged_cache.hpp"
#include "kernels/row_attention.hpp"

namespace dcp {

void MlaAttention::accesses(const Params& params, std::vector<Access>& out) {
  constexpr std::int64_t kInt = sizeof(std::int32_t);
  const std::int64_t out_rows = params.num_tokens * params.num_splits;
  const std::int64_t cache_elements = params.num_blocks * params.block_size * params.qk_head_dim;
  const std::int64_t table_entries =
      std::int64_t{params.batch.num_requests} * params.block_table_stride;
  declare_read(out, params.query, {params.num_tokens, params.num_heads, params.qk_head_dim},
               "query");
  declare_indexed(out, params.kv_cache,
                  cache_elements * static_cast<std::int64_t>(size_bytes(params.kv_dtype)),
                  Mode::kRead, "kv_cache");
  declare(out, params.block_table, table_entries * kInt, Mode::kRead, "block_table");
  declare_batch(out, params.batch, params.num_tokens);
  declare_write(out, params.out, {out_rows, params.num_heads, params.v_head_dim}, "out");
  declare_write(out, params.lse, {out_rows, params.num_heads, 1}, "lse");
  if (params.empty_row_mode != nullptr) {
    declare(out, params.empty_row_mode, kInt, Mode::kRead, "empty_row_mode");
  }
  if (params.num_tokens == 0) touch_none(out);
}

void MlaAttention::run(const Params& params) {
  const PagedCache cache{.op = kName,
                         .block_table = params.block_table,
                         .num_blocks = params.num_blocks,
                         .num_requests = params.batch.num_requests,
                         .block_table_stride = params.block_table_stride,
                         .block_size = params.block_size};
  const AttentionRows rows{.query = params.query,
                           .out = params.out,
                           .lse = params.lse,
                           .batch = params.batch,
                           .empty_row_mode = params.empty_row_mode,
                           .num_tokens = params.num_tokens,
                           .num_heads = params.num_heads,
                           .first_head = 0,
                           .heads_per_kv_head = params.num_heads,
                           .qk_head_dim = params.qk_head_dim,
                           .v_head_dim = params.v_head_dim,
                           .num_splits = params.num_splits,
                           .value_is_in_key = true,
                           .softmax_scale = params.softmax_scale,
                           .base = params.base};
  dispatch_kv_dtype(params.query.dtype, params.kv_dtype, [&]<class T, class Kv>() {
    attend_rows<T>(rows, [&](std::int32_t request, std::int64_t key, int /*kv_head*/) {
      const Kv* row = static_cast<const Kv*>(params.kv_cache) +
                      paged_row(cache, request, key) * params.qk_head_dim;
      return KeyValue<Kv>{row, row};
    });
  });
}

}  // namespace dcp
