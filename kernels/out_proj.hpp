// A stand-in for everything between two attentions, so that layers really chain: per row and head
//   q'[i] = out[(i + 7 * layer) mod D] / (rms(out) + 2^-10),   i in 0 .. Dq - 1
// with rms over the D elements in fp32, rounded to q's dtype. A row of zeros (padding) stays zeros.
//
// Reads T * h * D elements, writes T * h * Dq. Graph-safe: reads only addresses in Params.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct OutProj {
  static constexpr std::string_view kName = "out_proj";

  struct Params {
    ConstHeadRows out;    // [T, h, D] of `layer`
    HeadRows next_query;  // [T, h, Dq] of the layer after it
    std::int64_t num_tokens;
    std::int32_t num_heads;
    std::int32_t v_head_dim;
    std::int32_t qk_head_dim;
    std::int32_t layer;
    std::int32_t zero;  // 1: data of kind mean; next_query is 0 and `out` is not read
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
