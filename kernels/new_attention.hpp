// Attention of a step's new tokens among themselves, causal, from the new_kv input that every rank
// holds whole: a row of request r sees new_kv[f .. f + visible_keys(row) - 1] with f =
// first_rows[r]. A request may be cut between ubatches: its first new token may lie before the op's
// own rows. Query head i is head first_head + i of the group and reads KV head (first_head + i) /
// (H / G); out and lse are as in gqa_attention.hpp. `batch` counts new tokens where other ops count
// local keys: seq_lens the request's, causal_bounds those up to the row.
//
// Reads per row its keys and values (2 * G * D elements each), writes num_heads * (D + 1). Graph-
// safe: which rows belong together is read on the device.
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

struct NewAttention {
  static constexpr std::string_view kName = "new_attention";

  struct Params {
    ConstHeadRows query;                 // [T, num_heads, D]
    const void* new_kv;                  // [num_new_rows, 2, G, D] of the query's dtype
    const std::int32_t* first_rows;      // [R]
    BatchMetadata batch;                 // of new tokens, with query_start_loc
    HeadRows out;                        // [T, num_heads, D]
    float* lse;                          // [T, num_heads]
    const std::int32_t* empty_row_mode;  // one EmptyRowMode; null: exact
    std::int64_t num_tokens;
    std::int64_t num_new_rows;
    std::int32_t num_heads;
    std::int32_t first_head;
    std::int32_t heads_per_kv_head;  // H / G
    std::int32_t num_kv_heads;       // G
    std::int32_t head_dim;           // D
    float softmax_scale;
    LseBase base;
  };

  static void accesses(const Params& params, std::vector<Access>& out);

  // Throws Failure "illegal_address" where a row sees tokens past the end of new_kv.
  static void run(const Params& params);
};

}  // namespace dcp
