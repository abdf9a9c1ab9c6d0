// Device time of launches inside a graph, as kernel_bench.hpp says.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace dcp {

class GraphTimer {
 public:
  GraphTimer();
  GraphTimer(const GraphTimer&) = delete;
  GraphTimer& operator=(const GraphTimer&) = delete;
  ~GraphTimer() { cudaStreamDestroy(stream_); }

  // Median time in us of one `launch(stream, i)`, where i rotates over 0 .. sets - 1.
  double median_us(const std::function<void(cudaStream_t, int)>& launch, int sets, int launches);

  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace dcp
