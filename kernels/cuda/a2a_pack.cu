// Lanes move a row in pieces: vectors where payload rows start at a multiple of 16 bytes (split
// layout), words where each is followed by its lse (interleaved). All pieces of a lane are in
// flight before the first is stored. Few rows are spread over the GPU, one piece to a lane; of
// many, a warp takes a row. Where few rows are worked on, every instruction before the first load
// costs time: the grid is (local head, peer, token), and strides come in bytes.
#include <algorithm>
#include <cstdlib>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

PackedRows packed_rows(const A2aPack::Params& params) {
  return {.num_tokens = params.num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.num_heads / params.world_size,
          .head_dim = params.head_dim,
          .dtype = params.out.dtype,
          .layout = params.layout};
}

// Where rows come from and go to. Strides in bytes, and as short as the rows allow.
template <class Offset>
struct PackRows {
  const char* out;
  char* send;
  const void* lse;
  EmptyRows empty;
  DType lse_dtype;
  Offset out_token;
  Offset out_head;
  Offset lse_token;  // in elements
  Offset lse_head;
  Offset peer;         // from a peer's part to the next one's
  Offset payload_row;  // from a row's payload to the next one's
  Offset first_lse;    // of a part
  Offset lse_row;
  std::int32_t heads_per_rank;
  std::int32_t num_pieces;  // of a row
};

template <class Offset>
PackRows<Offset> pack_rows(const A2aPack::Params& params, const PackedRows& packed,
                           int piece_bytes) {
  const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
  const auto bytes = [&](std::int64_t elements) { return static_cast<Offset>(elements * element); };
  return {.out = static_cast<const char*>(params.out.data),
          .send = static_cast<char*>(params.send),
          .lse = params.lse.data,
          .empty = params.empty,
          .lse_dtype = params.lse.dtype,
          .out_token = bytes(params.out.strides.token),
          .out_head = bytes(params.out.strides.head),
          .lse_token = static_cast<Offset>(params.lse.strides.token),
          .lse_head = static_cast<Offset>(params.lse.strides.head),
          .peer = bytes(packed.elements_per_peer()),
          .payload_row = bytes(packed.payload_offset(0, 0, 1)),
          .first_lse = bytes(packed.lse_offset(0, 0, 0)),
          .lse_row = bytes(packed.lse_offset(0, 0, 1) - packed.lse_offset(0, 0, 0)),
          .heads_per_rank = packed.heads_per_rank,
          .num_pieces = static_cast<std::int32_t>(params.head_dim * element / piece_bytes)};
}

// The lanes of a row, threadIdx.x, move up to kPieces pieces of each of kRows rows.
template <class Piece, int kPieces, int kRows, class Offset>
__global__ void pack_pieces(const __grid_constant__ PackRows<Offset> rows) {
  const auto token = static_cast<Offset>(blockIdx.z);
  const auto peer = static_cast<Offset>(blockIdx.y);
  const auto first_head =
      static_cast<Offset>((blockIdx.x * blockDim.y + threadIdx.y) * kRows);  // of the peer's
  const auto num_rows = min(Offset{kRows}, rows.heads_per_rank - first_head);
  const auto each_piece = [&](const auto& body) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const auto k = static_cast<int>(threadIdx.x + i * blockDim.x);
        if (row < num_rows && k < rows.num_pieces) body(row, i, k);
      }
    }
  };
  const Offset head = peer * rows.heads_per_rank + first_head;
  const char* from = rows.out + token * rows.out_token + head * rows.out_head;
  wait_for_predecessor();
  Piece ahead[kRows][kPieces];
  each_piece([&](int row, int i, int k) {
    ahead[row][i] = reinterpret_cast<const Piece*>(from + row * rows.out_head)[k];
  });
  let_successor_come();
  char* part = rows.send + peer * rows.peer;
  const Offset first_row = token * rows.heads_per_rank + first_head;
  if (const auto row = static_cast<Offset>(threadIdx.x); row < num_rows) {
    const float lse = load_value({rows.lse, {}, rows.lse_dtype},
                                 token * rows.lse_token + (head + row) * rows.lse_head);
    *reinterpret_cast<std::uint32_t*>(part + rows.first_lse + (first_row + row) * rows.lse_row) =
        masked_lse_bits(lse, rows.empty.has(token));
  }
  char* to = part + first_row * rows.payload_row;
  each_piece([&](int row, int i, int k) {
    reinterpret_cast<Piece*>(to + row * rows.payload_row)[k] = ahead[row][i];
  });
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
  const std::uint32_t lse = masked_lse_bits(
      load_value(params.lse, params.lse.strides.offset(token, head)), params.empty.has(token));
  if (WarpTeam::lane() == 0) {
    store_lse_lanes(send + packed.lse_offset(peer, token, local_head), lse);
  }
}

auto pack_any(DType dtype) {
  return size_bytes(dtype) == sizeof(float) ? pack_elements<float> : pack_elements<Bf16>;
}

// Rows are whole pieces, at addresses that are whole pieces; and few enough for a block and a grid.
bool fits(const A2aPack::Params& params, const PackedRows& packed, int piece_bytes) {
  const auto part_bytes =
      packed.elements_per_peer() * static_cast<std::int64_t>(size_bytes(packed.dtype));
  constexpr std::int64_t kMostRowBytes = 4096;
  constexpr std::int64_t kMostTokens = 65535;
  const auto row_bytes = params.head_dim * static_cast<std::int64_t>(size_bytes(packed.dtype));
  return row_bytes <= kMostRowBytes && params.num_tokens <= kMostTokens &&
         has_whole_rows(params.out, params.head_dim, piece_bytes) &&
         is_aligned(params.send, piece_bytes) && part_bytes % piece_bytes == 0 &&
         params.out.strides.heads_per_rank >= params.num_heads &&
         params.lse.strides.heads_per_rank >= params.num_heads;
}

// Whether every offset is short.
bool are_short(const A2aPack::Params& params, const PackedRows& packed) {
  constexpr std::int64_t kElements = 1 << 28;
  const auto span = [&](const HeadStrides& strides) {
    return params.num_tokens * std::abs(strides.token) + params.num_heads * std::abs(strides.head);
  };
  return span(params.out.strides) < kElements && span(params.lse.strides) < kElements &&
         packed.world_size * packed.elements_per_peer() < kElements;
}

template <class Piece, int kPieces, int kRows, class Offset>
void launch_pieces(const A2aPack::Params& params, const PackedRows& packed, int teams,
                   cudaStream_t stream, bool is_early = true) {
  const auto rows = pack_rows<Offset>(params, packed, sizeof(Piece));
  teams = std::min(teams, (rows.heads_per_rank + kRows - 1) / kRows);
  const dim3 block(blocks_for(rows.num_pieces, kPieces * kWarp) * kWarp,
                   static_cast<unsigned>(teams));
  const dim3 grid(blocks_for(rows.heads_per_rank, kRows * teams),
                  static_cast<unsigned>(packed.world_size),
                  static_cast<unsigned>(params.num_tokens));
  auto* const kernel = pack_pieces<Piece, kPieces, kRows, Offset>;
  if (is_early) return launch_early(kernel, grid, block, 0, stream, rows);
  kernel<<<grid, block, 0, stream>>>(rows);
}

// Few rows are spread over more lanes, and keep more blocks busy. Vectors of 8192 rows, which fill
// the GPU once, took longer where they were launched early (6.5 us in place of 5.6), 32768 did not;
// the limit was not looked for between them.
void launch_rows(const A2aPack::Params& params, const PackedRows& packed, bool in_vectors,
                 cudaStream_t stream) {
  constexpr std::int64_t kFewRows = 2048;
  constexpr std::int64_t kManyRows = 32768;
  const std::int64_t num_rows = params.num_tokens * params.num_heads;
  const bool are_few = num_rows < kFewRows && are_short(params, packed);
  if (in_vectors && are_few) {
    launch_pieces<uint4, 1, 1, std::int32_t>(params, packed, 4, stream);
  } else if (in_vectors) {
    launch_pieces<uint4, 2, 2, std::int64_t>(params, packed, 4, stream, num_rows >= kManyRows);
  } else if (are_few) {
    launch_pieces<std::uint32_t, 2, 1, std::int32_t>(params, packed, 2, stream);
  } else {
    launch_pieces<std::uint32_t, 8, 1, std::int64_t>(params, packed, 4, stream);
  }
}

}  // namespace

void launch(const A2aPack::Params& params, const Launch& at) {
  if (params.num_tokens == 0 || params.num_heads == 0) return;
  const PackedRows packed = packed_rows(params);
  const bool in_vectors = packed.layout == A2aLayout::kSplit && fits(params, packed, kVector);
  if (in_vectors || fits(params, packed, sizeof(std::uint32_t))) {
    return launch_rows(params, packed, in_vectors, at.stream);
  }
  const RowGrid grid(params.num_tokens, params.num_heads, false);
  pack_any(packed.dtype)<<<grid.blocks, grid.block(), 0, at.stream>>>(params, packed);
}

}  // namespace dcp
