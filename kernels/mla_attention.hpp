// One rank's partial attention over its own paged keys (MLA: one KV head, whose first D elements
// are the value):
//   out = sum_k softmax_k(scale * q.key_k) * key_k[0..D),   lse = log_base sum_k exp(scale *
//   q.key_k)
// over the row's visible local keys 0 .. visible_keys(row) - 1; local key k of a request is row
// block_table[request][k / block_size] * block_size + k % block_size of the cache. Rows that see no
// key are left as *empty_row_mode says. Split s of S attends to the keys n*s/S .. n*(s+1)/S - 1 of
// the row's n and leaves its own state, out 0 and lse -inf where it has none; split_combine makes
// the partial of them.
//
// Reads per row its keys (Dq elements each) and H * Dq elements of query, writes H * (D + 1).
// Probabilities and sums are fp32. Graph-safe: lengths, blocks and the mode are read on the device.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/lse.hpp"
#include "kernels/batch_metadata.hpp"
#include "kernels/empty_row_mode.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct MlaAttention {
  static constexpr std::string_view kName = "mla_attention";

  struct Params {
    ConstHeadRows query;                 // [T, H, Dq]
    const void* kv_cache;                // [num_blocks, block_size, Dq] of kv_dtype
    DType kv_dtype;                      // the query's, or fp8_e4m3
    const std::int32_t* block_table;     // [R, block_table_stride]
    BatchMetadata batch;                 // with query_start_loc
    HeadRows out;                        // [S, T, H, D]; with splits fp32
    HeadRows lse;                        // [S, T, H] fp32, fp16 or bf16; element stride unused
    const std::int32_t* empty_row_mode;  // one EmptyRowMode; null: exact
    std::int64_t num_tokens;
    std::int64_t num_blocks;
    std::int32_t block_table_stride;
    std::int32_t block_size;
    std::int32_t num_heads;
    std::int32_t qk_head_dim;  // Dq
    std::int32_t v_head_dim;   // D <= Dq
    float softmax_scale;
    LseBase base;
    std::int32_t num_splits = 1;  // S
  };

  static void accesses(const Params& params, std::vector<Access>& out);

  // Throws Failure "illegal_address" where a key's block is outside the cache, or its entry outside
  // the block table.
  static void run(const Params& params);
};

}  // namespace dcp
