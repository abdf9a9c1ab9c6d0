// A warp takes a row: its lse, and where the row is not empty its payload, in vectors where the
// partial's rows are made of them. Rows in a slot always are.
#include "kernels/cuda/direct_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

using Params = DirectDispatch::Params;

template <class T>
__global__ void dispatch(const __grid_constant__ Params params, std::int64_t element_stride,
                         int per_row) {
  if (is_lost(*params.state)) return;
  const std::int64_t token = token_of_block();
  const int head = first_head_of_warp(1);
  if (head >= params.num_heads || token >= params.num_tokens) return;
  store_row<T>(params, slot_of(params.state->epoch, params.num_slots), token, head, element_stride,
               per_row);
}

}  // namespace

void launch(const Params& params, const Launch& at) {
  if (params.num_tokens == 0) return;
  const RowGrid grid(params.num_tokens, params.num_heads, false);
  with_row_pieces(params, [&]<class T>(std::int64_t element_stride, int per_row) {
    dispatch<T><<<grid.blocks, grid.block(), 0, at.stream>>>(params, element_stride, per_row);
  });
}

}  // namespace dcp
