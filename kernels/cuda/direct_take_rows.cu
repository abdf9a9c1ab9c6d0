// Blocks that wait hold their place on the GPU: there are no more of them than `bound` allows.
#include "kernels/cuda/direct_flags.cuh"
#include "kernels/cuda/gather_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

__global__ void take(const __grid_constant__ DirectTakeRows::Params params, Fault* fault) {
  if (is_lost(*params.read.state)) return;
  const std::uint32_t epoch = params.read.state->epoch;
  const bool came = wait_for_flags(params.wait, epoch, fault);
  if (came) read_rows(params.read, slot_of(epoch, params.read.num_slots));
  finish_reading(*params.read.state, epoch);
}

}  // namespace

void launch(const DirectTakeRows::Params& params, const Launch& at) {
  const DirectReadRows::Params& read = params.read;
  const std::int64_t bytes = read.world_size * read.num_rows * read.row_bytes;
  const std::int64_t most = std::max(1, params.wait.bound.max_blocks);
  take<<<gather_blocks(bytes, most), kGatherThreads, 0, at.stream>>>(params, at.fault);
}

}  // namespace dcp
