// Errors of the runtime's calls, with CUDA's names and numbers (driver_types.h, cudaError).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace dcp {

enum class ApiErrorCode : int {
  kInvalidValue = 1,
  kIllegalState = 401,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureWrongThread = 908,
  kCapturedEvent = 907,
};

std::string_view name(ApiErrorCode code);  // "cudaErrorStreamCaptureUnsupported"

class ApiError : public std::runtime_error {
 public:
  // what(): "cudaMalloc: cudaErrorStreamCaptureUnsupported (900): why".
  ApiError(ApiErrorCode code, std::string_view call, std::string_view why);

  ApiErrorCode code() const { return code_; }
  const std::string& call() const { return call_; }

  // What a report calls it: unjoined_fork, alloc_during_capture, else capture_illegal_call.
  std::string_view kind() const;

 private:
  ApiErrorCode code_;
  std::string call_;
};

}  // namespace dcp
