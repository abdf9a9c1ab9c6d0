// One warp per row. A row of the interleaved layout is one word longer than its payload, so that
// rows start 0, 4, 8 or 12 bytes past a 16-byte line: the warp loads aligned vectors, shifts them
// against each other by whole words, and stores aligned vectors.
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

__device__ std::uint32_t lse_bits(const A2aPack::Params& params, std::int64_t token, int head) {
  const bool is_empty = row_is_empty_by_warp(params.batch, token);
  return masked_lse_bits(load_value(params.lse, params.lse.strides.offset(token, head)), is_empty);
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

// payload[0 .. 4 * num_vectors - 1] and then the lse, to consecutive words from `to`.
__device__ void store_row(const uint4* payload, std::uint32_t lse, std::uint32_t* to,
                          int num_vectors) {
  const int lane = WarpTeam::lane();
  const int lead = static_cast<int>(-(reinterpret_cast<std::uintptr_t>(to) / 4) % 4);
  const int last = num_vectors - 1;
  auto* lines = reinterpret_cast<uint4*>(to + lead);
  for (int begin = 0; begin < num_vectors; begin += kWarp) {
    const int k = begin + lane;
    const uint4 mine = k <= last ? payload[k] : uint4{};
    uint4 next = next_lane(mine);
    if (lane == kWarp - 1 && k < last && lead > 0) next = payload[k + 1];
    if (k == last) next.x = lse;
    if (k == 0) store_words(to, mine, lead);
    if (k < last || (k == last && lead <= 1)) {
      lines[k] = shifted(mine, next, lead);
    } else if (k == last) {
      store_words(to + lead + 4 * k, shifted(mine, next, lead), 5 - lead);
    }
    if (k == last && lead == 0) to[4 * num_vectors] = lse;
  }
}

__global__ void pack_vectors(const __grid_constant__ A2aPack::Params params,
                             const __grid_constant__ PackedRows packed) {
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (head >= params.num_heads) return;
  const auto element = static_cast<std::int64_t>(size_bytes(packed.dtype));
  const int peer = head / packed.heads_per_rank;
  const int local_head = head % packed.heads_per_rank;
  const auto* payload = reinterpret_cast<const uint4*>(
      static_cast<const char*>(params.out.data) + params.out.strides.offset(token, head) * element);
  auto* send = static_cast<char*>(params.send);
  char* to = send + packed.payload_offset(peer, token, local_head) * element;
  const int num_vectors = static_cast<int>(params.head_dim * element / kVector);
  if (packed.layout == A2aLayout::kInterleaved) {
    store_row(payload, lse_bits(params, token, head), reinterpret_cast<std::uint32_t*>(to),
              num_vectors);
    return;
  }
  for (int k = WarpTeam::lane(); k < num_vectors; k += kWarp) {
    reinterpret_cast<uint4*>(to)[k] = payload[k];
  }
  const std::uint32_t lse = lse_bits(params, token, head);
  if (WarpTeam::lane() > 0) return;
  *reinterpret_cast<std::uint32_t*>(send + packed.lse_offset(peer, token, local_head) * element) =
      lse;
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
  const std::uint32_t lse = lse_bits(params, token, head);
  if (WarpTeam::lane() == 0) {
    store_lse_lanes(send + packed.lse_offset(peer, token, local_head), lse);
  }
}

}  // namespace

void launch(const A2aPack::Params& params, const Launch& at) {
  if (params.num_tokens == 0 || params.num_heads == 0) return;
  const PackedRows packed = packed_rows(params);
  // Few rows: a block for each, so that they spread over the GPU.
  const int rows_per_block = params.num_tokens * params.num_heads < 2048 ? 1 : 8;
  const dim3 block(kWarp, rows_per_block);
  const dim3 grid(static_cast<unsigned>(params.num_tokens),
                  blocks_for(params.num_heads, rows_per_block));
  // Parts of the split layout start at a multiple of T * h * (D + lanes) elements.
  const bool is_split = packed.layout == A2aLayout::kSplit;
  const auto part_bytes =
      packed.elements_per_peer() * static_cast<std::int64_t>(size_bytes(packed.dtype));
  const bool fits = has_vector_rows(params.out, params.head_dim) &&
                    is_aligned(params.send, kVector) && (!is_split || part_bytes % kVector == 0);
  if (fits) {
    pack_vectors<<<grid, block, 0, at.stream>>>(params, packed);
  } else if (size_bytes(packed.dtype) == sizeof(float)) {
    pack_elements<float><<<grid, block, 0, at.stream>>>(params, packed);
  } else {
    pack_elements<Bf16><<<grid, block, 0, at.stream>>>(params, packed);
  }
}

}  // namespace dcp
