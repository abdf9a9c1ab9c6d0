// Every block waits for the flags itself, one lane to a peer, and then combines rows where they
// lie. Blocks that wait hold their place on the GPU: there are no more of them than `bound` allows,
// so that the ranks that share it can come and raise the flags.
#include <algorithm>

#include "kernels/cuda/combine_rows.cuh"
#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/slot_rows.hpp"

namespace dcp {

namespace {

using Params = DirectCombine::Params;

constexpr int kThreads = 256;
static_assert(kThreads >= kMaxPeers);

// kWords words to a lane; 0: more than eight ranks.
template <LseBase kBase, class T, int kWords>
__global__ void combine_words(const __grid_constant__ Params params,
                              const __grid_constant__ DirectWait::Params waits,
                              const __grid_constant__ CombineRows first_slot, Fault* fault) {
  extern __shared__ float all_factors[];
  const std::uint32_t epoch = params.state->epoch;
  const bool came = wait_for_flags(waits, epoch, fault);
  CombineRows rows = first_slot;
  const std::int64_t slot = slot_of(epoch, params.num_slots);
  rows.payload += slot * rows.world_size * rows.part;
  rows.lses += slot * rows.world_size * rows.lse_part;
  const std::int64_t num_rows = came ? rows.num_tokens * rows.heads_per_rank : 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < num_rows;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t token = i / rows.heads_per_rank;
    const int head = static_cast<int>(i % rows.heads_per_rank);
    const CombinedRow<std::int64_t> row(rows, token, head);
    LseSum total;
    if constexpr (kWords > 0) {
      total = combine_group<kBase, T, kWords>(row, rows.world_size);
    } else {
      const unsigned warp = (threadIdx.y * blockDim.x + threadIdx.x) / kWarp;
      total = combine_groups<kBase, T>(row, rows.world_size, all_factors + warp * rows.world_size);
      __syncwarp();  // the next row's factors take the place of this one's
    }
    store_lse<kBase>(rows, row, token, head, total);
  }
  finish_reading(*params.state, epoch, came);
}

// Any strides and alignment of the result; a row to a warp.
template <LseBase kBase, class T>
__global__ void combine_elements(const __grid_constant__ Params params,
                                 const __grid_constant__ DirectWait::Params waits, Fault* fault) {
  extern __shared__ float all_factors[];
  const std::uint32_t epoch = params.state->epoch;
  const bool came = wait_for_flags(waits, epoch, fault);
  const std::uint32_t slot = slot_of(epoch, params.num_slots);
  const SlotRows slots{.max_num_tokens = params.max_num_tokens,
                       .world_size = params.world_size,
                       .heads_per_rank = params.heads_per_rank};
  float* factors = all_factors + threadIdx.y * params.world_size;
  const std::int64_t num_rows = came ? params.num_tokens * params.heads_per_rank : 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < num_rows;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t token = i / params.heads_per_rank;
    const int head = static_cast<int>(i % params.heads_per_rank);
    const auto lse_of = [&](int sender) {
      return params.lse_slots[slots.row(slot, sender, token, head)];
    };
    const auto row_of = [&](int sender) {
      return static_cast<const T*>(params.payload) +
             slots.row(slot, sender, token, head) * params.head_dim;
    };
    const LseSum total = rank_factors<kBase, WarpTeam>(params.world_size, lse_of, factors);
    sum_rank_rows<WarpTeam>(
        factors, params.world_size, params.head_dim, row_of,
        StridedRow<T>{static_cast<T*>(params.out.data) + params.out.strides.offset(token, head),
                      params.out.strides.element});
    if (params.lse != nullptr && WarpTeam::lane() == 0) params.lse[i] = combined_lse<kBase>(total);
    __syncwarp();  // the next row's factors take the place of this one's
  }
  finish_reading(*params.state, epoch, came);
}

CombineRows rows_of_first_slot(const Params& params) {
  const auto element = static_cast<std::int64_t>(size_bytes(params.out.dtype));
  const std::int64_t row = params.head_dim * element;
  const std::int64_t rows_per_part = params.max_num_tokens * params.heads_per_rank;
  return {.payload = static_cast<const char*>(params.payload),
          .lses = reinterpret_cast<const char*>(params.lse_slots),
          .part = rows_per_part * row,
          .lse_part = rows_per_part * static_cast<std::int64_t>(sizeof(float)),
          .payload_row = row,
          .lse_row = sizeof(float),
          .out = static_cast<char*>(params.out.data),
          .out_token = params.out.strides.token * element,
          .out_head = params.out.strides.head * element,
          .lse = params.lse,
          .num_tokens = params.num_tokens,
          .heads_per_rank = params.heads_per_rank,
          .num_words = static_cast<std::int32_t>(row / 4),
          .world_size = params.world_size};
}

bool has_word_rows(const Params& params) {
  return has_whole_rows(params.out, params.head_dim, 4) &&
         params.out.strides.heads_per_rank >= params.heads_per_rank;
}

unsigned blocks_of(const Params& params, int rows_per_block) {
  const std::int64_t rows = params.num_tokens * params.heads_per_rank;
  const std::int64_t most = std::max(1, params.bound.max_blocks);
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((rows + rows_per_block - 1) / rows_per_block, 1, most));
}

template <LseBase kBase, class T>
void launch_words(const Params& params, const Launch& at) {
  const CombineRows rows = rows_of_first_slot(params);
  const auto lanes_for = [&](int words) {
    return static_cast<int>(blocks_for(rows.num_words, kWarp * words)) * kWarp;
  };
  const bool are_few = rows.num_tokens * rows.heads_per_rank <= params.bound.max_blocks;
  const int lanes = std::min(lanes_for(are_few ? 1 : 2), kThreads);
  const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(kThreads / lanes));
  const unsigned blocks = blocks_of(params, static_cast<int>(block.y));
  const std::size_t shared = kThreads / kWarp * params.world_size * sizeof(float);
  const auto start = [&](auto* kernel, std::size_t bytes) {
    kernel<<<blocks, block, bytes, at.stream>>>(params, params.wait(), rows, at.fault);
  };
  if (params.world_size > kGroup || rows.num_words > 2 * lanes) {
    start(combine_words<kBase, T, 0>, shared);
  } else if (rows.num_words <= lanes) {
    start(combine_words<kBase, T, 1>, 0);
  } else {
    start(combine_words<kBase, T, 2>, 0);
  }
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      if (has_word_rows(params)) return launch_words<kBase, T>(params, at);
      const dim3 block(kWarp, kThreads / kWarp);
      const std::size_t shared = block.y * params.world_size * sizeof(float);
      combine_elements<kBase, T>
          <<<blocks_of(params, static_cast<int>(block.y)), block, shared, at.stream>>>(
              params, params.wait(), at.fault);
    });
  });
}

}  // namespace dcp
