// A row is shared by several warps.
#include <algorithm>
#include <cstdlib>

#include "kernels/cuda/combine_rows.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

constexpr int kWordsPerLane = 2;  // of many rows
constexpr int kLanesPerBlock = 256;
// A word to a lane.
template <LseBase kBase, class T>
__global__ void combine_few(const __grid_constant__ CombineRows rows) {
  const auto token = static_cast<int>(blockIdx.y);
  const auto head = static_cast<int>(blockIdx.x);
  const CombinedRow<std::int32_t> row(rows, token, head);
  wait_for_predecessor();
  const LseSum total = combine_group<kBase, T, SpreadWords<1>>(row, rows.world_size);
  let_successor_come();
  store_lse<kBase>(rows, row, token, head, total);
}

// kWords words to a lane; 0: more than eight ranks.
template <LseBase kBase, class T, int kWords>
__global__ void combine_many(const __grid_constant__ CombineRows rows) {
  extern __shared__ float all_factors[];
  wait_for_predecessor();
  const std::int64_t token = token_of_block();
  const int head = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  if (head >= rows.heads_per_rank || token >= rows.num_tokens) return;
  const CombinedRow<std::int64_t> row(rows, token, head);
  LseSum total;
  if constexpr (kWords > 0) {
    total = combine_group<kBase, T, SpreadWords<kWords>>(row, rows.world_size);
  } else {
    const unsigned warp = (threadIdx.y * blockDim.x + threadIdx.x) / kWarp;
    total = combine_groups<kBase, T>(row, rows.world_size, all_factors + warp * rows.world_size);
  }
  let_successor_come();
  store_lse<kBase>(rows, row, token, head, total);
}

// Any strides and alignment.
template <LseBase kBase, class T>
__global__ void combine_elements(const __grid_constant__ A2aCombine::Params params,
                                 const __grid_constant__ PackedRows packed) {
  extern __shared__ float all_factors[];
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= packed.rows_per_peer()) return;
  const std::int64_t token = row / packed.heads_per_rank;
  const int head = static_cast<int>(row % packed.heads_per_rank);
  const auto* recv = static_cast<const T*>(params.recv);
  float* factors = all_factors + threadIdx.y * params.world_size;
  const auto lse_of = [&](int rank) {
    return load_lse_lanes(recv + packed.lse_offset(rank, token, head));
  };
  const auto row_of = [&](int rank) { return recv + packed.payload_offset(rank, token, head); };
  const LseSum total = rank_factors<kBase, WarpTeam>(params.world_size, lse_of, factors);
  sum_rank_rows<WarpTeam>(
      factors, params.world_size, params.head_dim, row_of,
      StridedRow<T>{static_cast<T*>(params.out.data) + params.out.strides.offset(token, head),
                    params.out.strides.element});
  if (params.lse != nullptr && WarpTeam::lane() == 0) params.lse[row] = combined_lse<kBase>(total);
}

CombineRows combine_rows(const A2aCombine::Params& params, const PackedRows& packed) {
  const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
  const auto bytes = [&](std::int64_t elements) { return elements * element; };
  const auto* recv = static_cast<const char*>(params.recv);
  return {.payload = recv,
          .lses = recv + bytes(packed.lse_offset(0, 0, 0)),
          .part = bytes(packed.elements_per_peer()),
          .lse_part = bytes(packed.elements_per_peer()),
          .payload_row = bytes(packed.payload_offset(0, 0, 1)),
          .lse_row = bytes(packed.lse_offset(0, 0, 1) - packed.lse_offset(0, 0, 0)),
          .out = static_cast<char*>(params.out.data),
          .out_token = bytes(params.out.strides.token),
          .out_head = bytes(params.out.strides.head),
          .lse = params.lse,
          .num_tokens = params.num_tokens,
          .heads_per_rank = params.heads_per_rank,
          .num_words = static_cast<std::int32_t>(bytes(params.head_dim) / 4),
          .world_size = params.world_size};
}

bool has_word_rows(const A2aCombine::Params& params) {
  return is_aligned(params.recv, 4) && has_whole_rows(params.out, params.head_dim, 4) &&
         params.out.strides.heads_per_rank >= params.heads_per_rank;
}

// Whether a word to a lane leaves the GPU room, and every offset is short.
bool are_few(const CombineRows& rows) {
  constexpr std::int64_t kRows = 1024;
  constexpr std::int64_t kBytes = 1 << 30;
  const std::int64_t span =
      rows.num_tokens * std::abs(rows.out_token) + rows.heads_per_rank * std::abs(rows.out_head);
  return rows.num_words <= 1024 && rows.num_tokens * rows.heads_per_rank < kRows && span < kBytes &&
         rows.world_size * rows.part < kBytes;
}

template <LseBase kBase, class T>
void launch_words(const CombineRows& rows, cudaStream_t stream) {
  const auto lanes_for = [&](int words_per_lane) {
    return static_cast<int>(blocks_for(rows.num_words, kWarp * words_per_lane)) * kWarp;
  };
  if (rows.world_size <= kGroup && are_few(rows)) {
    const dim3 grid(static_cast<unsigned>(rows.heads_per_rank),
                    static_cast<unsigned>(rows.num_tokens));
    return launch_early(combine_few<kBase, T>, grid, lanes_for(1), 0, stream, rows);
  }
  const int lanes = lanes_for(kWordsPerLane);
  const int rows_per_block = std::clamp(kLanesPerBlock / lanes, 1, rows.heads_per_rank);
  const dim3 grid =
      RowGrid::token_grid(rows.num_tokens, blocks_for(rows.heads_per_rank, rows_per_block));
  const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(rows_per_block));
  if (rows.world_size <= kGroup) {
    return launch_early(combine_many<kBase, T, kWordsPerLane>, grid, block, 0, stream, rows);
  }
  const std::size_t shared = block.x * block.y / kWarp * rows.world_size * sizeof(float);
  launch_early(combine_many<kBase, T, 0>, grid, block, shared, stream, rows);
}

}  // namespace

void launch(const A2aCombine::Params& params, const Launch& at) {
  const PackedRows packed{.num_tokens = params.num_tokens,
                          .world_size = params.world_size,
                          .heads_per_rank = params.heads_per_rank,
                          .head_dim = params.head_dim,
                          .dtype = params.out.dtype,
                          .layout = params.layout};
  const std::int64_t num_rows = packed.rows_per_peer();
  if (num_rows == 0) return;
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      if (has_word_rows(params)) {
        launch_words<kBase, T>(combine_rows(params, packed), at.stream);
        return;
      }
      const dim3 block(kWarp, 4);
      const std::size_t shared = block.y * params.world_size * sizeof(float);
      combine_elements<kBase, T>
          <<<blocks_for(num_rows, static_cast<int>(block.y)), block, shared, at.stream>>>(params,
                                                                                          packed);
    });
  });
}

}  // namespace dcp
