// Lanes move a row in pieces: vectors where payload rows start at a multiple of 16 bytes (split
// layout), words where each is followed by its lse (interleaved). All pieces of a lane are in
// flight before the first is stored. Few rows are spread over the GPU, one piece to a lane; of
// many, a warp takes a row. Where few rows are worked on, every instruction before the first load
// costs time: the grid is (local head, peer, token), and strides come in bytes.
#include <algorithm>
#include <cstdlib>

#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

#ifndef PACK_AHEAD
#define PACK_AHEAD 8
#endif
#ifndef PACK_ROWS
#define PACK_ROWS 4
#endif
PackedRows packed_rows(const A2aPack::Params& params) {
  return {.num_tokens = params.num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.num_heads / params.world_size,
          .head_dim = params.head_dim,
          .dtype = params.out.dtype,
          .layout = params.layout};
}

// Where rows come from and go to. Strides in bytes.
struct PackRows {
  const char* out;
  std::int64_t out_token;
  std::int64_t out_head;
  char* send;
  std::int64_t peer;         // from a peer's part to the next one's
  std::int64_t payload_row;  // from a row's payload to the next one's
  std::int64_t first_lse;    // of a part
  std::int64_t lse_row;
  ConstHeadRows lse;  // heads of one rank: no division to find one
  BatchMetadata batch;
  std::int64_t num_tokens;
  std::int32_t heads_per_rank;
  std::int32_t num_pieces;  // of a row
};

PackRows pack_rows(const A2aPack::Params& params, const PackedRows& packed, int piece_bytes) {
  const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
  const auto bytes = [&](std::int64_t elements) { return elements * element; };
  return {.out = static_cast<const char*>(params.out.data),
          .out_token = bytes(params.out.strides.token),
          .out_head = bytes(params.out.strides.head),
          .send = static_cast<char*>(params.send),
          .peer = bytes(packed.elements_per_peer()),
          .payload_row = bytes(packed.payload_offset(0, 0, 1)),
          .first_lse = bytes(packed.lse_offset(0, 0, 0)),
          .lse_row = bytes(packed.lse_offset(0, 0, 1) - packed.lse_offset(0, 0, 0)),
          .lse = params.lse,
          .batch = params.batch,
          .num_tokens = params.num_tokens,
          .heads_per_rank = packed.heads_per_rank,
          .num_pieces = static_cast<std::int32_t>(bytes(params.head_dim) / piece_bytes)};
}

// How a kernel counts: rows that are spread over the GPU have one piece to a lane and short
// offsets.
struct Spread {
  using Offset = std::int32_t;
  static constexpr int kPerLane = 1;
};
template <int kPieces>
struct RowToAWarp {
  using Offset = std::int64_t;
  static constexpr int kPerLane = kPieces;
};

template <class Piece, class Grid>
__device__ void pack_row(const PackRows& rows, typename Grid::Offset token, int local_head) {
  using Offset = typename Grid::Offset;
  const auto at = [](auto index, std::int64_t stride) {
    return static_cast<Offset>(index) * static_cast<Offset>(stride);
  };
  const int lane = static_cast<int>(threadIdx.x);
  const int peer = static_cast<int>(blockIdx.y);
  const int head = peer * rows.heads_per_rank + local_head;
  const auto* from = reinterpret_cast<const Piece*>(rows.out + at(token, rows.out_token) +
                                                    at(head, rows.out_head));
  Piece ahead[Grid::kPerLane];
#pragma unroll
  for (int i = 0; i < Grid::kPerLane; ++i) {
    const int k = i * kWarp + lane;
    if (k < rows.num_pieces) ahead[i] = from[k];
  }
  char* part = rows.send + at(peer, rows.peer);
  const Offset row = at(token, rows.heads_per_rank) + local_head;
  if (Grid::kPerLane > 1 || lane < kWarp) {
    const float lse =
        load_value(rows.lse, at(token, rows.lse.strides.token) + at(head, rows.lse.strides.head));
    const std::uint32_t bits = masked_lse_bits(lse, row_is_empty_by_warp(rows.batch, token));
    if (lane == 0) {
      *reinterpret_cast<std::uint32_t*>(part + rows.first_lse + at(row, rows.lse_row)) = bits;
    }
  }
  auto* to = reinterpret_cast<Piece*>(part + at(row, rows.payload_row));
#pragma unroll
  for (int i = 0; i < Grid::kPerLane; ++i) {
    const int k = i * kWarp + lane;
    if (k < rows.num_pieces) to[k] = ahead[i];
  }
  if constexpr (Grid::kPerLane > 1) {
#pragma unroll 1
    for (int k = Grid::kPerLane * kWarp + lane; k < rows.num_pieces; k += kWarp) to[k] = from[k];
  }
}

template <class Piece>
__global__ void pack_few(const __grid_constant__ PackRows rows) {
  pack_row<Piece, Spread>(rows, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x));
}

template <class Piece, int kPerLane>
__global__ void pack_many(const __grid_constant__ PackRows rows) {
  const int local_head = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  if (local_head >= rows.heads_per_rank) return;
  for (std::int64_t token = blockIdx.z; token < rows.num_tokens; token += gridDim.z) {
    pack_row<Piece, RowToAWarp<kPerLane>>(rows, token, local_head);
  }
}

// Any strides and alignment. T has the payload's size; its bits are moved.
template <class T>
__global__ void pack_elements(const __grid_constant__ A2aPack::Params params,
                              const __grid_constant__ PackedRows packed) {
  const std::int64_t token = token_of_block();
  const int head = first_head_of_warp(1);
  if (head >= params.num_heads || token >= params.num_tokens) return;
  const int peer = head / packed.heads_per_rank;
  const int local_head = head % packed.heads_per_rank;
  auto* send = static_cast<T*>(params.send);
  move_payload<WarpTeam>(StridedRow<const T>{static_cast<const T*>(params.out.data) +
                                                 params.out.strides.offset(token, head),
                                             params.out.strides.element},
                         send + packed.payload_offset(peer, token, local_head), params.head_dim);
  const std::uint32_t lse =
      masked_lse_bits(load_value(params.lse, params.lse.strides.offset(token, head)),
                      row_is_empty_by_warp(params.batch, token));
  if (WarpTeam::lane() == 0) {
    store_lse_lanes(send + packed.lse_offset(peer, token, local_head), lse);
  }
}

auto pack_any(DType dtype) {
  return size_bytes(dtype) == sizeof(float) ? pack_elements<float> : pack_elements<Bf16>;
}

// Rows are whole pieces, at addresses that are whole pieces.
bool fits(const A2aPack::Params& params, const PackedRows& packed, int piece_bytes) {
  const auto part_bytes =
      packed.elements_per_peer() * static_cast<std::int64_t>(size_bytes(packed.dtype));
  return has_whole_rows(params.out, params.head_dim, piece_bytes) &&
         is_aligned(params.send, piece_bytes) && part_bytes % piece_bytes == 0 &&
         params.out.strides.heads_per_rank >= params.num_heads &&
         params.lse.strides.heads_per_rank >= params.num_heads;
}

// Whether the GPU holds all lanes at once, and every offset is short.
bool are_few(const PackRows& rows, int world_size, int lanes) {
  constexpr std::int64_t kLanes = 1 << 18;
  constexpr std::int64_t kBytes = 1 << 30;
  const std::int64_t num_heads = std::int64_t{world_size} * rows.heads_per_rank;
  const auto span = [&](std::int64_t token, std::int64_t head) {
    return rows.num_tokens * std::abs(token) + num_heads * std::abs(head);
  };
  return rows.num_pieces <= lanes && rows.num_tokens * num_heads * lanes <= kLanes &&
         span(rows.out_token, rows.out_head) < kBytes && world_size * rows.peer < kBytes &&
         span(rows.lse.strides.token, rows.lse.strides.head) < kBytes;
}

template <class Piece, int kPerLane>
void launch_pieces(const A2aPack::Params& params, const PackedRows& packed, cudaStream_t stream) {
  const PackRows rows = pack_rows(params, packed, sizeof(Piece));
  const auto peers = static_cast<unsigned>(params.world_size);
  const int lanes = std::min((rows.num_pieces + kWarp - 1) / kWarp * kWarp, 1024);
  if (are_few(rows, params.world_size, lanes)) {
    const dim3 grid(blocks_for(rows.heads_per_rank, 1), peers,
                    static_cast<unsigned>(rows.num_tokens));
    pack_few<Piece><<<grid, static_cast<unsigned>(lanes), 0, stream>>>(rows);
    return;
  }
  const dim3 block(kWarp, PACK_ROWS);
  const dim3 grid(blocks_for(rows.heads_per_rank, PACK_ROWS), peers,
                  static_cast<unsigned>(std::min<std::int64_t>(rows.num_tokens, 65535)));
  pack_many<Piece, kPerLane><<<grid, block, 0, stream>>>(rows);
}

}  // namespace

void launch(const A2aPack::Params& params, const Launch& at) {
  if (params.num_tokens == 0 || params.num_heads == 0) return;
  const PackedRows packed = packed_rows(params);
  if (packed.layout == A2aLayout::kSplit && fits(params, packed, kVector)) {
    return launch_pieces<uint4, 2>(params, packed, at.stream);
  }
  if (fits(params, packed, sizeof(std::uint32_t))) {
    return launch_pieces<std::uint32_t, PACK_AHEAD>(params, packed, at.stream);
  }
  const RowGrid grid(params.num_tokens, params.num_heads, false);
  pack_any(packed.dtype)<<<grid.blocks, grid.block(), 0, at.stream>>>(params, packed);
}

}  // namespace dcp
