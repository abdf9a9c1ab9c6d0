// A warp takes a row: its lse, and where the row is not empty its payload, in vectors where the
// partial's rows are made of them. Rows in a slot always are.
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/slot_rows.hpp"

namespace dcp {

namespace {

using Params = DirectDispatch::Params;

// T: what is moved at a time, with its stride in the partial; `per_row` of them make a row.
template <class T>
__global__ void dispatch(const __grid_constant__ Params params, std::int64_t element_stride,
                         int per_row) {
  const std::int64_t token = token_of_block();
  const int head = first_head_of_warp(1);
  if (head >= params.num_heads || token >= params.num_tokens) return;
  const SlotRows slots{.max_num_tokens = params.max_num_tokens,
                       .world_size = params.world_size,
                       .heads_per_rank = params.num_heads / params.world_size};
  const int peer = head / slots.heads_per_rank;
  const std::int64_t row = slots.row(slot_of(params.state->epoch, params.num_slots), params.rank,
                                     token, head % slots.heads_per_rank);
  const bool is_empty = row_is_empty_by_warp(params.batch, token);
  if (WarpTeam::lane() == 0) {
    const float lse = load_value(params.lse, params.lse.strides.offset(token, head));
    params.lse_slots.at[peer][row] = std::bit_cast<float>(masked_lse_bits(lse, is_empty));
  }
  if (is_empty) return;
  const auto* from =
      reinterpret_cast<const T*>(static_cast<const char*>(params.out.data) +
                                 params.out.strides.offset(token, head) *
                                     static_cast<std::int64_t>(size_bytes(params.out.dtype)));
  move_payload<WarpTeam>(StridedRow<const T>{from, element_stride},
                         static_cast<T*>(params.payload.at[peer]) + row * per_row, per_row);
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  if (params.num_tokens == 0) return;
  const RowGrid grid(params.num_tokens, params.num_heads, false);
  const auto element = static_cast<int>(size_bytes(params.out.dtype));
  if (has_vector_rows(params.out, params.head_dim)) {
    const int vectors = params.head_dim * element / kVector;
    dispatch<uint4><<<grid.blocks, grid.block(), 0, at.stream>>>(params, 1, vectors);
    return;
  }
  const auto any = element == sizeof(float) ? dispatch<std::uint32_t> : dispatch<std::uint16_t>;
  any<<<grid.blocks, grid.block(), 0, at.stream>>>(params, params.out.strides.element,
                                                   params.head_dim);
}

}  // namespace dcp
