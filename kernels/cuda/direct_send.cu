// A warp takes a row: its lse, and where the row is not empty its payload, in vectors where the
// partial's rows are made of them. Rows in a slot always are.
#include <algorithm>

#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/direct_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

template <class T>
__global__ void send(const __grid_constant__ DirectSend::Params params, std::int64_t element_stride,
                     int per_row) {
  const DirectDispatch::Params& rows = params.dispatch;
  const std::uint32_t epoch = next_epoch(params.advance.state->epoch, params.advance.num_slots);
  const std::uint32_t slot = slot_of(epoch, rows.num_slots);
  const std::int64_t num_rows = rows.num_tokens * rows.num_heads;
  const std::int64_t num_warps = std::int64_t{gridDim.x} * blockDim.x / kWarp;
  for (std::int64_t row = global_warp(); row < num_rows; row += num_warps) {
    store_row<T>(rows, slot, row / rows.num_heads, static_cast<int>(row % rows.num_heads),
                 element_stride, per_row);
  }
  finish_sending(params.publish, epoch);
}

}  // namespace

void launch(const DirectSend::Params& params, const Launch& at) {
  constexpr int kThreads = 256;
  static_assert(kThreads >= kMaxPeers);
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t rows = params.dispatch.num_tokens * params.dispatch.num_heads;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>(blocks_for(rows * kWarp, kThreads), 1, kMaxBlocks));
  with_row_pieces(params.dispatch, [&]<class T>(std::int64_t element_stride, int per_row) {
    send<T><<<blocks, kThreads, 0, at.stream>>>(params, element_stride, per_row);
  });
}

}  // namespace dcp
