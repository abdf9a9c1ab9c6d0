#include "runtime/api_error.hpp"

namespace dcp {

std::string_view name(ApiErrorCode code) {
  switch (code) {
    case ApiErrorCode::kInvalidValue:
      return "cudaErrorInvalidValue";
    case ApiErrorCode::kIllegalState:
      return "cudaErrorIllegalState";
    case ApiErrorCode::kStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case ApiErrorCode::kStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case ApiErrorCode::kStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case ApiErrorCode::kStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case ApiErrorCode::kStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case ApiErrorCode::kStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case ApiErrorCode::kStreamCaptureWrongThread:
      return "cudaErrorStreamCaptureWrongThread";
    case ApiErrorCode::kCapturedEvent:
      return "cudaErrorCapturedEvent";
  }
  return "cudaErrorUnknown";
}

namespace {

std::string describe(ApiErrorCode code, std::string_view call, std::string_view why) {
  std::string text(call);
  text.append(": ").append(name(code)).append(" (").append(std::to_string(static_cast<int>(code)));
  text.append("): ").append(why);
  return text;
}

}  // namespace

ApiError::ApiError(ApiErrorCode code, std::string_view call, std::string_view why)
    : std::runtime_error(describe(code, call, why)), code_(code), call_(call) {}

std::string_view ApiError::kind() const {
  if (code_ == ApiErrorCode::kStreamCaptureUnjoined) return "unjoined_fork";
  if (call_ == "cudaMalloc" || call_ == "cudaMallocHost") return "alloc_during_capture";
  return "capture_illegal_call";
}

}  // namespace dcp
