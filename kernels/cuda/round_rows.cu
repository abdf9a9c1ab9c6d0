#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

template <class T>
__global__ void round_elements(const __grid_constant__ RoundRows::Params params) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < params.num_elements) static_cast<T*>(params.out)[i] = from_float<T>(params.in[i]);
}

}  // namespace

void launch(const RoundRows::Params& params, const Launch& at) {
  if (params.num_elements == 0) return;
  constexpr int kThreads = 256;
  const unsigned blocks = blocks_for(params.num_elements, kThreads);
  dispatch_dtype(params.dtype,
                 [&]<class T>() { round_elements<T><<<blocks, kThreads, 0, at.stream>>>(params); });
}

}  // namespace dcp
