#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/gather_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

__global__ void send(const __grid_constant__ DirectSendRows::Params params) {
  if (is_lost(*params.advance.state)) return;
  const std::uint32_t epoch = next_epoch(params.advance.state->epoch, params.advance.num_slots);
  store_rows(params.store, slot_of(epoch, params.store.num_slots));
  finish_sending(params.publish, epoch);
}

}  // namespace

void launch(const DirectSendRows::Params& params, const Launch& at) {
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t bytes = params.store.num_rows * params.store.row_bytes;
  send<<<gather_blocks(bytes, kMaxBlocks), kGatherThreads, 0, at.stream>>>(params);
}

}  // namespace dcp
