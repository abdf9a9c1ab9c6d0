// This rank's share of the combine, for strategies that add the shares with a reduction:
//   scaled = (w_rank / s) * out,   exactly 0 where w_rank is 0 (out is not read there)
//   lse = m + log_b(s)             for the heads that this rank reports
// with m, w and s over the gathered lses of all ranks (lse_weights.hpp), -inf in the place of what
// a rank reports for a row that is empty on it.
//
// Reads N * T * H * 4 bytes of lses, 8 * T of empty_ranks and T * H * D elements, writes T * H * D.
// Graph-safe: reads only addresses in Params; which rows are empty is read on the device. The
// caller's partial is not written.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/lse.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct LseCorrect {
  static constexpr std::string_view kName = "lse_correct";

  struct Params {
    const float* lses;                 // [N, T, H] as reported: NaN and +inf count as -inf
    const std::uint64_t* empty_ranks;  // [T] (empty_ranks.hpp); null: no row is empty
    ConstHeadRows out;                 // [T, H, D] this rank's partial
    HeadRows scaled;                   // [T, H, D], may be of another dtype
    float* lse;                        // [T, num_lse_heads], or null: not wanted
    std::int64_t num_tokens;
    std::int32_t num_heads;
    std::int32_t head_dim;
    std::int32_t world_size;
    std::int32_t rank;
    std::int32_t first_lse_head;  // lse is written for heads first .. first + num - 1
    std::int32_t num_lse_heads;
    LseBase base;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
