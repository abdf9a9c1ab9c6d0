// CUDA refuses allocations and instantiations while a thread captures (in global mode: while any
// does), unless the calling thread says that it knows what it does: what it makes is not part of
// the graph, and outlives it.
#pragma once

#include <cuda_runtime_api.h>

namespace dcp {

class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace dcp
