// Combines what the all-to-all brought, for the h heads that this rank keeps:
//   out = sum over ranks with w_r > 0 of (w_r / s) * out_r,   lse = m + log_b(s)
// with the weights of lse_weights.hpp, accumulated in fp32 in rank order. The payload of a rank
// with weight 0 is not read. All ranks empty: out 0, lse -inf.
//
// Reads N * T * h * (D * e + 4) bytes, writes T * h * D * e (+ 4). Graph-safe: reads only addresses
// in Params.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/lse.hpp"
#include "core/packed_rows.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct A2aCombine {
  static constexpr std::string_view kName = "a2a_combine";

  struct Params {
    const void* recv;  // PackedRows, one part per source rank
    HeadRows out;      // [T, h, D]; its dtype is that of the receive buffer
    float* lse;        // [T, h], or null: not wanted
    std::int64_t num_tokens;
    std::int32_t heads_per_rank;
    std::int32_t head_dim;
    std::int32_t world_size;
    LseBase base;
    A2aLayout layout;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
