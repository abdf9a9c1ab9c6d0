// What a rank's step reads: device addresses that stay the same for the engine's life, so that a
// captured graph may hold them. A step loads a new batch into them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/batch_metadata.hpp"

namespace dcp {

struct StepInputs {
  const std::byte* query;              // layer 0: [max_num_tokens, h or H, Dq]
  const std::byte* new_kv;             // [layers, max_num_tokens, kv_row_dim]
  const std::byte* all_new_kv;         // the same from the step's first row, whatever the ubatch
  std::byte* kv_cache;                 // [layers, num_blocks, block_size, kv_row_dim]
  const std::int32_t* block_table;     // [num_requests, block_table_stride]
  const std::int64_t* slot_mapping;    // [max_num_tokens]
  const std::int32_t* empty_row_mode;  // [1] an EmptyRowMode
  const std::byte* kv_chunk;           // [layers, T, Dkv] of kv_gather, this ubatch's; else null
  const std::byte* given_out;          // [max_num_tokens, padded H, D]; null unless given
  const std::byte* given_lse;          // [max_num_tokens, padded H]
  BatchMetadata batch;                 // of the keys that a rank attends to
  const std::uint64_t* empty_ranks;    // [max_num_tokens] of the same keys (empty_ranks.hpp)
  BatchMetadata new_batch;             // of new tokens; only where they are attended to apart, as
  const std::int32_t* new_first_rows;  // [num_requests] step's row of a request's first new token
  std::int64_t num_blocks;
  std::int32_t block_table_stride;
  std::int32_t block_size;
  float softmax_scale;
  bool zero_query;  // data of kind mean: queries of later layers are 0 too
};

}  // namespace dcp
