#include "kernels/cuda/gather_rows.cuh"
#include "kernels/cuda/ops.hpp"

namespace dcp {

namespace {

__global__ void store(const __grid_constant__ DirectStoreRows::Params params) {
  if (is_lost(*params.state)) return;
  store_rows(params, slot_of(params.state->epoch, params.num_slots));
}

}  // namespace

void launch(const DirectStoreRows::Params& params, const Launch& at) {
  if (params.num_rows == 0) return;
  constexpr std::int64_t kMaxBlocks = 1024;
  store<<<gather_blocks(params.num_rows * params.row_bytes, kMaxBlocks), kGatherThreads, 0,
          at.stream>>>(params);
}

}  // namespace dcp
