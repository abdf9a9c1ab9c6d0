// The sizes of one decode step on one rank, fixed when the step is planned.
#pragma once

#include <cstdint>

#include "core/direct_spec.hpp"
#include "core/kv_gather_spec.hpp"
#include "core/lse.hpp"
#include "core/packed_rows.hpp"

namespace dcp {

struct StepShape {
  int world_size;  // N
  int rank;
  int layers;
  std::int64_t num_tokens;      // T: rows of this step, padding included
  std::int64_t max_num_tokens;  // rows that persistent buffers hold
  int num_heads;                // H: query heads of the group
  int padded_num_heads;         // heads that partials and gathered queries have storage for, >= H
  int heads_per_rank;           // h = H / N
  int qk_head_dim;              // Dq
  int head_dim;                 // D: value dim
  DType dtype;                  // of queries, keys, partials, outputs and the wire
  LseTag lse;                   // of the partials
  DType reduce_dtype;           // of the sum in ag_rs and ag_ar
  A2aLayout a2a_layout;
  bool return_lse;
  int num_kv_heads = 1;           // G: KV heads of the group, all of which every rank holds; MLA: 1
  int kv_row_dim = 0;             // elements that the cache holds of a token
  DType kv_dtype = DType::kBf16;  // of the cache
  int num_splits = 1;             // splits of a row's local keys inside attention
  DirectSpec direct = {};
  KvGatherSpec kv_gather = {};
  std::int64_t max_exchange_tokens = 0;  // rows that a slot of the direct exchange holds
  bool copies_lse = false;  // partials' lse is not fp32 [T, H] without gaps: ag_* send a copy
};

}  // namespace dcp
