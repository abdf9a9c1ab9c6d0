// A warp takes a row: its lse, and where the row is not empty its payload, in vectors where the
// partial's rows are made of them. Rows in a slot always are.
#include <algorithm>

#include "kernels/cuda/direct_rows.cuh"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/system_scope.cuh"
#include "kernels/direct_send.hpp"

namespace dcp {

namespace {

// Every block's stores come before its count, and every count before the flags.
template <class T>
__global__ void send(const __grid_constant__ DirectSend::Params params,
                     const __grid_constant__ DirectDispatch::Params rows,
                     std::int64_t element_stride, int per_row) {
  ExchangeState& state = *params.state;
  const std::uint32_t epoch = next_epoch(state.epoch, params.num_slots);
  const std::uint32_t slot = slot_of(epoch, params.num_slots);
  const std::int64_t num_rows = params.num_tokens * params.num_heads;
  const std::int64_t num_warps = std::int64_t{gridDim.x} * blockDim.x / kWarp;
  for (std::int64_t row = global_warp(); row < num_rows; row += num_warps) {
    store_row<T>(rows, slot, row / params.num_heads, static_cast<int>(row % params.num_heads),
                 element_stride, per_row);
  }
  __threadfence_system();
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicInc(&state.num_done, gridDim.x - 1) == gridDim.x - 1;
    __threadfence_system();
  }
  __syncthreads();
  if (!is_last) return;
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < params.world_size) {
    store_release(params.signals.at[peer] + slot * params.world_size + params.rank, epoch);
  }
  if (peer == 0) {
    state.epoch = epoch;
    state.published = epoch;
  }
}

}  // namespace

void launch(const DirectSend::Params& params, const Launch& at) {
  constexpr int kThreads = 256;
  static_assert(kThreads >= kMaxPeers);
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t rows = params.num_tokens * params.num_heads;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>(blocks_for(rows * kWarp, kThreads), 1, kMaxBlocks));
  const DirectDispatch::Params stored = params.dispatch();
  with_row_pieces(stored, [&]<class T>(std::int64_t element_stride, int per_row) {
    send<T><<<blocks, kThreads, 0, at.stream>>>(params, stored, element_stride, per_row);
  });
}

}  // namespace dcp
