// A warp takes a row: its lse, and its payload where the lse says that there is one.
#include <algorithm>
#include <limits>

#include "core/packed_rows.hpp"
#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/lse_weights.hpp"
#include "kernels/slot_rows.hpp"

namespace dcp {

namespace {

using Params = DirectRead::Params;

PackedRows packed_rows(const Params& params) {
  return {.num_tokens = params.num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.heads_per_rank,
          .head_dim = params.head_dim,
          .dtype = params.dtype,
          .layout = A2aLayout::kSplit};
}

template <class Piece>
__device__ void read_row(const Params& params, const PackedRows& packed, std::uint32_t slot,
                         std::int64_t index) {
  const auto heads = static_cast<std::int64_t>(params.heads_per_rank);
  const int head = static_cast<int>(index % heads);
  const std::int64_t token = index / heads % params.num_tokens;
  const int sender = static_cast<int>(index / heads / params.num_tokens);
  const SlotRows slots{.max_num_tokens = params.max_num_tokens,
                       .world_size = params.world_size,
                       .heads_per_rank = params.heads_per_rank};
  const std::int64_t row = slots.row(slot, sender, token, head);
  const auto element = static_cast<std::int64_t>(size_bytes(params.dtype));
  auto* received = static_cast<char*>(params.received);
  const float lse = params.lse_slots[row];
  if (WarpTeam::lane() == 0) {
    *reinterpret_cast<float*>(received + packed.lse_offset(sender, token, head) * element) = lse;
  }
  if (sanitize_lse(lse) == -std::numeric_limits<float>::infinity()) return;
  const int pieces = static_cast<int>(params.head_dim * element / std::int64_t{sizeof(Piece)});
  const auto* from = static_cast<const Piece*>(params.payload) + row * pieces;
  auto* to =
      reinterpret_cast<Piece*>(received + packed.payload_offset(sender, token, head) * element);
  for (int i = WarpTeam::lane(); i < pieces; i += kWarp) to[i] = from[i];
}

template <class Piece>
__global__ void read(const __grid_constant__ Params params,
                     const __grid_constant__ PackedRows packed) {
  if (is_lost(*params.state)) return;
  const std::uint32_t epoch = params.state->epoch;
  const std::int64_t num_rows = packed.rows_per_peer() * params.world_size;
  const std::int64_t num_warps = std::int64_t{gridDim.x} * blockDim.x / kWarp;
  for (std::int64_t i = global_warp(); i < num_rows; i += num_warps) {
    read_row<Piece>(params, packed, slot_of(epoch, params.num_slots), i);
  }
  finish_reading(*params.state, epoch);
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  constexpr int kThreads = 256;
  constexpr std::int64_t kMaxBlocks = 2048;
  const PackedRows packed = packed_rows(params);
  const std::int64_t num_rows = packed.rows_per_peer() * params.world_size;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>(blocks_for(num_rows * kWarp, kThreads), 1, kMaxBlocks));
  const auto part_bytes =
      packed.elements_per_peer() * static_cast<std::int64_t>(size_bytes(params.dtype));
  const bool has_vectors = is_aligned(params.received, kVector) && part_bytes % kVector == 0;
  const auto kernel = has_vectors ? read<uint4> : read<std::uint32_t>;
  kernel<<<blocks, kThreads, 0, at.stream>>>(params, packed);
}

}  // namespace dcp
