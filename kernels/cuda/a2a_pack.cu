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

// Where the rows of a warp go, in 4-byte words.
template <int kRows>
struct SendRows {
  std::uint32_t* payload[kRows];
  std::uint32_t* lse[kRows];

  __device__ SendRows(const A2aPack::Params& params, const PackedRows& packed, std::int64_t token,
                      int first_head) {
    const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
    auto* send = static_cast<char*>(params.send);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int peer = (first_head + i) / packed.heads_per_rank;
      const int head = (first_head + i) % packed.heads_per_rank;
      payload[i] = reinterpret_cast<std::uint32_t*>(
          send + packed.payload_offset(peer, token, head) * element);
      lse[i] =
          reinterpret_cast<std::uint32_t*>(send + packed.lse_offset(peer, token, head) * element);
    }
  }
  template <class T>
  __device__ static T* select(T* const (&of)[kRows], int row) {
    T* selected = of[0];
#pragma unroll
    for (int i = 1; i < kRows; ++i) selected = row == i ? of[i] : selected;
    return selected;
  }
};

template <int kRows>
__global__ void pack_vectors(const __grid_constant__ A2aPack::Params params,
                             const __grid_constant__ PackedRows packed) {
  constexpr int kAhead = kVectorsAhead<kRows>;
  const std::int64_t token = blockIdx.x;
  const int first_head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y) * kRows;
  if (first_head >= params.num_heads) return;
  const int lane = WarpTeam::lane();
  const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
  const WarpRows<kRows> rows{static_cast<int>(params.head_dim * element / kVector),
                             min(kRows, params.num_heads - first_head)};
  const RowOffsets<kRows> from(params.out.strides, token, first_head);
  const auto load = [&](int vector) {
    const int row = rows.row_of(vector);
    const auto* payload = static_cast<const char*>(params.out.data) + from[row] * element;
    return reinterpret_cast<const uint4*>(payload)[vector - row * rows.num_vectors];
  };
  uint4 ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int vector = i * kWarp + lane;
    ahead[i] = vector < rows.total() ? load(vector) : uint4{};
  }
  // Lane i has the lse of row i.
  const float own_lse =
      lane < rows.count
          ? load_value(params.lse, params.lse.strides.offset(token, first_head + lane))
          : 0.0f;
  const SendRows<kRows> to(params, packed, token, first_head);
  const std::uint32_t lse = masked_lse_bits(own_lse, row_is_empty_by_warp(params.batch, token));
  const bool is_split = packed.layout == A2aLayout::kSplit;
  const auto store = [&](int vector, const uint4& mine, const uint4& next, std::uint32_t row_lse) {
    const int row = rows.row_of(vector);
    const int k = vector - row * rows.num_vectors;
    std::uint32_t* payload = SendRows<kRows>::select(to.payload, row);
    if (is_split) {
      reinterpret_cast<uint4*>(payload)[k] = mine;
    } else {
      store_vector(mine, next, row_lse, payload, k, rows.num_vectors - 1);
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (i * kWarp >= rows.total()) break;
    const int vector = i * kWarp + lane;
    uint4 next = next_lane(ahead[i]);
    if (lane == kWarp - 1 && vector + 1 < rows.total()) next = load(vector + 1);  // in the cache
    const std::uint32_t row_lse = __shfl_sync(~0u, lse, rows.row_of(vector) % kRows);
    if (vector < rows.total()) store(vector, ahead[i], next, row_lse);
  }
  for (int begin = kAhead * kWarp; begin < rows.total(); begin += kWarp) {
    const int vector = begin + lane;
    const uint4 mine = vector < rows.total() ? load(vector) : uint4{};
    uint4 next = next_lane(mine);
    if (lane == kWarp - 1 && vector + 1 < rows.total()) next = load(vector + 1);
    const std::uint32_t row_lse = __shfl_sync(~0u, lse, rows.row_of(vector) % kRows);
    if (vector < rows.total()) store(vector, mine, next, row_lse);
  }
  if (is_split && lane < rows.count) *SendRows<kRows>::select(to.lse, lane) = lse;
}

// Any strides and alignment. T has the payload's size; its bits are moved.
template <class T>
__global__ void pack_elements(const __grid_constant__ A2aPack::Params params,
                              const __grid_constant__ PackedRows packed) {
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (head >= params.num_heads) return;
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
  if (fits) {
    const RowGrid rows = make_row_grid(params.num_tokens, params.num_heads);
    const auto kernel = rows.rows_per_warp == 1 ? pack_vectors<1> : pack_vectors<4>;
    kernel<<<rows.grid, rows.block, 0, at.stream>>>(params, packed);
    return;
  }
  constexpr int kWarps = 4;
  const dim3 block(kWarp, kWarps);
  const dim3 grid(static_cast<unsigned>(params.num_tokens), blocks_for(params.num_heads, kWarps));
  if (size_bytes(packed.dtype) == sizeof(float)) {
    pack_elements<float><<<grid, block, 0, at.stream>>>(params, packed);
  } else {
    pack_elements<Bf16><<<grid, block, 0, at.stream>>>(params, packed);
  }
}

}  // namespace dcp
