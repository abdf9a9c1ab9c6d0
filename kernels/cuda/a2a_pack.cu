// A warp takes one to four rows. A row of the interleaved layout is one word longer than its
// payload, so that rows start 0, 4, 8 or 12 bytes past a 16-byte line: the warp loads aligned
// vectors, shifts them against each other by whole words, and stores aligned vectors.
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

__device__ uint4 next_lane(const uint4& v) {
  return {__shfl_down_sync(~0u, v.x, 1), __shfl_down_sync(~0u, v.y, 1),
          __shfl_down_sync(~0u, v.z, 1), __shfl_down_sync(~0u, v.w, 1)};
}

// Words `shift` .. `shift` + 3 of eight.
__device__ uint4 shifted(const uint4& a, const uint4& b, int shift) {
  switch (shift) {
    case 1:
      return {a.y, a.z, a.w, b.x};
    case 2:
      return {a.z, a.w, b.x, b.y};
    case 3:
      return {a.w, b.x, b.y, b.z};
    default:
      return a;
  }
}

__device__ void store_words(std::uint32_t* to, const uint4& v, int count) {
  if (count > 0) to[0] = v.x;
  if (count > 1) to[1] = v.y;
  if (count > 2) to[2] = v.z;
}

// Vector k of a row's payload and the one after it (the lse after the last), to words `4 k` .. of a
// row that starts at `to`.
__device__ void store_vector(const uint4& mine, uint4 next, std::uint32_t lse, std::uint32_t* to,
                             int k, int last) {
  const int lead = static_cast<int>(-(reinterpret_cast<std::uintptr_t>(to) / 4) % 4);
  if (k == last) next.x = lse;
  if (k == 0) store_words(to, mine, lead);  // up to the first whole line
  std::uint32_t* line = to + lead + 4 * k;
  if (k < last || lead <= 1) {
    *reinterpret_cast<uint4*>(line) = shifted(mine, next, lead);
  } else {
    store_words(line, shifted(mine, next, lead), 5 - lead);
  }
  if (k == last && lead == 0) line[4] = lse;
}

// Where the heads of a warp go.
struct SendHead {
  int peer;
  int head;

  __device__ void next(int heads_per_rank) {
    if (++head < heads_per_rank) return;
    head = 0;
    ++peer;
  }
};

// One row, of which `ahead` is loaded already.
__device__ void store_row(const uint4 (&ahead)[kAhead], const uint4* payload, int num_vectors,
                          std::uint32_t lse, std::uint32_t* to) {
  const int lane = WarpTeam::lane();
  const int last = num_vectors - 1;
  for (int i = 0; i * kWarp < num_vectors; ++i) {
    const int k = i * kWarp + lane;
    const uint4 mine = i == 0 ? ahead[0] : i == 1 ? ahead[1] : k <= last ? payload[k] : uint4{};
    uint4 next = next_lane(mine);
    if (lane == kWarp - 1 && k < last) next = payload[k + 1];  // in the cache
    if (k <= last) store_vector(mine, next, lse, to, k, last);
  }
}

template <int kRows>
__global__ void pack_vectors(const __grid_constant__ A2aPack::Params params,
                             const __grid_constant__ PackedRows packed) {
  const std::int64_t token = token_of_block();
  const int first_head = first_head_of_warp(kRows);
  const int num_rows = min(kRows, params.num_heads - first_head);
  if (num_rows <= 0 || token >= params.num_tokens) return;
  const int lane = WarpTeam::lane();
  const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
  const int num_vectors = static_cast<int>(params.head_dim * element / kVector);
  const RowOffsets<kRows> from(params.out.strides, token, first_head);
  const auto payload_of = [&](int row) {
    return reinterpret_cast<const uint4*>(static_cast<const char*>(params.out.data) +
                                          from.at[row] * element);
  };
  uint4 ahead[kRows][kAhead];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int k = i * kWarp + lane;
      const bool is_there = row < num_rows && k < num_vectors;
      ahead[row][i] = is_there ? payload_of(row)[k] : uint4{};
    }
  }
  const float own_lse =  // lane i has the lse of row i
      lane < num_rows ? load_value(params.lse, params.lse.strides.offset(token, first_head + lane))
                      : 0.0f;
  SendHead to{first_head / packed.heads_per_rank, first_head % packed.heads_per_rank};
  const std::uint32_t lse = masked_lse_bits(own_lse, row_is_empty_by_warp(params.batch, token));
  const auto word_at = [&](std::int64_t offset) {
    return reinterpret_cast<std::uint32_t*>(static_cast<char*>(params.send) + offset * element);
  };
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (row >= num_rows) break;
    const std::uint32_t row_lse = __shfl_sync(~0u, lse, row);
    std::uint32_t* out = word_at(packed.payload_offset(to.peer, token, to.head));
    if (packed.layout == A2aLayout::kInterleaved) {
      store_row(ahead[row], payload_of(row), num_vectors, row_lse, out);
    } else {
      auto* vectors = reinterpret_cast<uint4*>(out);
      if (lane < num_vectors) vectors[lane] = ahead[row][0];
      if (lane + kWarp < num_vectors) vectors[lane + kWarp] = ahead[row][1];
      for (int k = lane + kAhead * kWarp; k < num_vectors; k += kWarp) {
        vectors[k] = payload_of(row)[k];
      }
      if (lane == 0) *word_at(packed.lse_offset(to.peer, token, to.head)) = row_lse;
    }
    to.next(packed.heads_per_rank);
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

}  // namespace

void launch(const A2aPack::Params& params, const Launch& at) {
  if (params.num_tokens == 0 || params.num_heads == 0) return;
  const PackedRows packed = packed_rows(params);
  // Parts of the split layout start at a multiple of T * h * (D + lanes) elements.
  const bool is_split = packed.layout == A2aLayout::kSplit;
  const auto part_bytes =
      packed.elements_per_peer() * static_cast<std::int64_t>(size_bytes(packed.dtype));
  const bool fits = has_vector_rows(params.out, params.head_dim) &&
                    is_aligned(params.send, kVector) && (!is_split || part_bytes % kVector == 0);
  const RowGrid grid(params.num_tokens, params.num_heads, fits);
  const auto kernel = !fits                     ? pack_any(packed.dtype)
                      : grid.rows_per_warp == 1 ? pack_vectors<1>
                                                : pack_vectors<4>;
  kernel<<<grid.blocks, grid.block(), 0, at.stream>>>(params, packed);
}

}  // namespace dcp
