// Errors of CUDA calls as the exceptions of the product.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace dcp {

// Throws what `error` means for the caller; returns where it is cudaSuccess:
//   ApiError           the call was refused, with CUDA's number
//   StepError capacity the GPU has no memory left
//   Failure            the GPU stopped: an address was illegal, a launch failed
void check_cuda(cudaError_t error, std::string_view call);

}  // namespace dcp
