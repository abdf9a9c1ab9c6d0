#include "runtime/cuda/cuda_error.hpp"

#include <string>

#include "core/error.hpp"
#include "runtime/api_error.hpp"

namespace dcp {

void check_cuda(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not find it again
  const std::string text = std::string(call) + ": " + cudaGetErrorString(error);
  switch (error) {
    case cudaErrorMemoryAllocation:
      throw StepError("capacity", text);
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
      throw Failure("illegal_address", -1, text);
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
      throw Failure("rank_lost", -1, text);
    default:
      throw ApiError(static_cast<ApiErrorCode>(error), call, cudaGetErrorString(error));
  }
}

}  // namespace dcp
