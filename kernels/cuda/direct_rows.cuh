// A row of a rank's partial on its way into the slot of the rank that combines it.
#pragma once

#include "kernels/cuda/rows.cuh"
#include "kernels/direct_dispatch.hpp"
#include "kernels/slot_rows.hpp"

namespace dcp {

// Where a row goes: to the rank that combines its head, in this sender's part of the slot.
struct PeerRow {
  int peer;
  std::int64_t row;

  __device__ PeerRow(const DirectDispatch::Params& params, std::uint32_t slot, std::int64_t token,
                     int head) {
    const SlotRows slots{.max_num_tokens = params.max_num_tokens,
                         .world_size = params.world_size,
                         .heads_per_rank = params.num_heads / params.world_size};
    peer = head / slots.heads_per_rank;
    row = slots.row(slot, params.rank, token, head % slots.heads_per_rank);
  }

  __device__ void store_lse(const DirectDispatch::Params& params, std::int64_t token, int head,
                            bool is_empty) const {
    if (WarpTeam::lane() > 0) return;
    const float lse = load_value(params.lse, params.lse.strides.offset(token, head));
    params.lse_slots.at[peer][row] = std::bit_cast<float>(masked_lse_bits(lse, is_empty));
  }
};

// By a warp. T: what is moved at a time, with its stride in the partial; `per_row` of them make a
// row.
template <class T>
__device__ void store_row(const DirectDispatch::Params& params, std::uint32_t slot,
                          std::int64_t token, int head, std::int64_t element_stride, int per_row) {
  const PeerRow to(params, slot, token, head);
  const bool is_empty = params.empty.has(token);
  to.store_lse(params, token, head, is_empty);
  if (is_empty) return;
  const auto* from =
      reinterpret_cast<const T*>(static_cast<const char*>(params.out.data) +
                                 params.out.strides.offset(token, head) *
                                     static_cast<std::int64_t>(size_bytes(params.out.dtype)));
  move_payload<WarpTeam>(StridedRow<const T>{from, element_stride},
                         static_cast<T*>(params.payload.at[to.peer]) + to.row * per_row, per_row);
}

// Calls `body.template operator()<T>(element_stride, per_row)`: 16 bytes at a time where the
// partial's rows allow it.
template <class Body>
void with_row_pieces(const DirectDispatch::Params& params, const Body& body) {
  const auto element = static_cast<int>(size_bytes(params.out.dtype));
  if (has_vector_rows(params.out, params.head_dim)) {
    body.template operator()<uint4>(1, params.head_dim * element / kVector);
  } else if (element == sizeof(std::uint32_t)) {
    body.template operator()<std::uint32_t>(params.out.strides.element, params.head_dim);
  } else {
    body.template operator()<std::uint16_t>(params.out.strides.element, params.head_dim);
  }
}

}  // namespace dcp
