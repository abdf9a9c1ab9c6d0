// Makes a rank's partial of the states that attention left for the splits of its keys:
//   out = sum over splits with w_s > 0 of (w_s / sum w) * out_s,   lse = m + log_b(sum w)
// with the weights of lse_weights.hpp, in split order, rounded once. A split without keys has lse
// -inf: its out is not read. Where a split's lse is NaN, so is the partial: attention without
// splits shows a NaN key too. Rows that are empty on this rank are left as *empty_row_mode says.
// The weights carry the rounding of the fp32 lses: a relative error of 2^-24 * |lse|.
//
// Reads S * T * H * (D + 1) * 4 bytes, writes T * H * D elements and T * H lses. Graph-safe: rows
// and mode are read on the device.
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

struct SplitCombine {
  static constexpr std::string_view kName = "split_combine";

  struct Params {
    const float* split_out;              // [S, T, H, D]
    const float* split_lse;              // [S, T, H]
    HeadRows out;                        // [T, H, D]
    HeadRows lse;                        // [T, H] fp32, fp16 or bf16; element stride unused
    BatchMetadata batch;                 // with query_start_loc
    const std::int32_t* empty_row_mode;  // one EmptyRowMode
    std::int64_t num_tokens;
    std::int32_t num_heads;
    std::int32_t head_dim;
    std::int32_t num_splits;
    LseBase base;  // of both lses
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
