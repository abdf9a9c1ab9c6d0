// One rank's partial attention over its own paged keys, where query head i reads KV head
// g = i / (H / G):
//   out = sum_k softmax_k(scale * q.key_{k,g}) * value_{k,g}
//   lse = log_base sum_k exp(scale * q.key_{k,g})
// over the row's visible local keys, as mla_attention.hpp says of pages, empty rows and splits.
//
// Reads per row its keys and values (2 * G * D elements each) and H * D elements of query, writes
// H * (D + 1) per split. Probabilities and sums are fp32. Graph-safe: lengths, blocks and the mode
// are read on the device.
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

struct GqaAttention {
  static constexpr std::string_view kName = "gqa_attention";

  struct Params {
    ConstHeadRows query;                 // [T, H, D]
    const void* kv_cache;                // [num_blocks, block_size, 2, G, D] of kv_dtype
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
    std::int32_t num_heads;     // H, a multiple of G
    std::int32_t num_kv_heads;  // G
    std::int32_t head_dim;      // D
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
