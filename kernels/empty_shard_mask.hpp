// masked = fp32(lse), and -inf in rows that are empty on this rank (empty_ranks.hpp), whatever the
// attention left there. The caller's lse is not written. Strategies that send an lse launch it
// where the attention's is not fp32 [T, H] without gaps; else the lse is sent as it is, and the op
// that takes it in masks (lse_correct.hpp).
//
// Reads T * H lses and 8 * T bytes, writes T * H * 4 bytes. Graph-safe: which rows are empty is
// read on the device from persistent metadata.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/empty_ranks.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct EmptyShardMask {
  static constexpr std::string_view kName = "empty_shard_mask";

  struct Params {
    ConstHeadRows lse;  // [T, H], fp32, fp16 or bf16: widened exactly; fp32 bits are kept
    float* masked;      // [T, H] contiguous
    EmptyRows empty;
    std::int64_t num_tokens;
    std::int32_t num_heads;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
