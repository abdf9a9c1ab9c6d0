#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/gather_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

__global__ void read(const __grid_constant__ DirectReadRows::Params params) {
  if (is_lost(*params.state)) return;
  const std::uint32_t epoch = params.state->epoch;
  read_rows(params, slot_of(epoch, params.num_slots));
  finish_reading(*params.state, epoch);
}

}  // namespace

void launch(const DirectReadRows::Params& params, const Launch& at) {
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t bytes = params.world_size * params.num_rows * params.row_bytes;
  read<<<gather_blocks(bytes, kMaxBlocks), kGatherThreads, 0, at.stream>>>(params);
}

}  // namespace dcp
