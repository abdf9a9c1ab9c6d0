// Merges the two attention states of a row, over its context (from all ranks) and over the step's
// new tokens (local), with the weights of lse_weights.hpp, as if they were two ranks:
//   out = (w_c / s) * out_c + (w_n / s) * out_n,   lse = m + log_b(s),   s = w_c + w_n
// A state of weight 0 is not read. The new state of a row without new tokens (padding) counts as
// -inf whatever the attention left there: such a row ends as out 0, lse -inf.
//
// Reads 2 * T * h * (D * e + 4) bytes, writes T * h * (D * e + 4). Graph-safe: reads only addresses
// in Params.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/lse.hpp"
#include "kernels/batch_metadata.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct MergeStates {
  static constexpr std::string_view kName = "merge_states";

  struct Params {
    const void* context_out;   // [T, h, D] contiguous, of out's dtype
    const float* context_lse;  // [T, h]
    const void* new_out;       // [T, h, D] contiguous, of out's dtype
    const float* new_lse;      // [T, h]
    HeadRows out;              // [T, h, D]
    float* lse;                // [T, h], or null: not wanted
    BatchMetadata batch;       // of new tokens, as new_attention's
    std::int64_t num_tokens;
    std::int32_t num_heads;  // h
    std::int32_t head_dim;
    LseBase base;  // of all lses
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
