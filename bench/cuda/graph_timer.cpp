#include "bench/cuda/graph_timer.hpp"

#include <algorithm>
#include <vector>

#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

constexpr int kWarmup = 3;
constexpr int kReplays = 20;

// Time in us between each event and the one after it.
std::vector<double> gaps_us(const std::vector<cudaEvent_t>& events) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < events.size(); ++i) {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, events[i - 1], events[i]), "cudaEventElapsedTime");
    gaps.push_back(1e3 * ms);
  }
  return gaps;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

GraphTimer::GraphTimer() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

double GraphTimer::median_us(const std::function<void(cudaStream_t, int)>& launch, int sets,
                             int launches) {
  const int rounds = (launches + sets - 1) / sets;
  launch(stream_, 0);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  for (int i = 0; i < rounds * sets; ++i) launch(stream_, i % sets);
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");

  std::vector<cudaEvent_t> events(kWarmup + kReplays + 1);
  for (cudaEvent_t& event : events) check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  check_cuda(cudaEventRecord(events[0], stream_), "cudaEventRecord");
  for (std::size_t i = 1; i < events.size(); ++i) {
    check_cuda(cudaGraphLaunch(exec, stream_), "cudaGraphLaunch");
    check_cuda(cudaEventRecord(events[i], stream_), "cudaEventRecord");
  }
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  std::vector<double> gaps = gaps_us(events);
  gaps.erase(gaps.begin(), gaps.begin() + kWarmup);
  for (const cudaEvent_t event : events) cudaEventDestroy(event);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  return median(gaps) / (rounds * sets);
}

}  // namespace dcp
