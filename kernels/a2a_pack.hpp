// Packs a rank's partial for the all-to-all: per destination rank, the rows of its heads and their
// lses (core/packed_rows.hpp). The empty-shard mask is fused: rows that are empty on this rank get
// lse -inf, and carry whatever payload the attention left.
//
// Reads T * H * (D * e + lse size) + 8 * T bytes, writes T * H * (D * e + 4). Moves bits; only a
// 16-bit lse is widened. Graph-safe: which rows are empty is read on the device. The caller's
// partial is not written.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/packed_rows.hpp"
#include "kernels/empty_ranks.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct A2aPack {
  static constexpr std::string_view kName = "a2a_pack";

  struct Params {
    ConstHeadRows out;  // [T, H, D]; its dtype is that of the send buffer
    ConstHeadRows lse;  // [T, H] fp32, fp16 or bf16
    void* send;         // PackedRows: [N] parts of T * h rows, h = H / N
    EmptyRows empty;
    std::int64_t num_tokens;
    std::int32_t num_heads;  // a multiple of world_size
    std::int32_t head_dim;
    std::int32_t world_size;
    A2aLayout layout;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
