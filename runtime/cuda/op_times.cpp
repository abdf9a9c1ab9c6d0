#include "runtime/cuda/op_times.hpp"

#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

void record(cudaEvent_t event, cudaStream_t stream) {
  check_cuda(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal),
             "cudaEventRecordWithFlags");
}

}  // namespace

OpTimes::~OpTimes() {
  for (const Timed& timed : ops_) {
    cudaEventDestroy(timed.begin);
    cudaEventDestroy(timed.end);
  }
}

void OpTimes::begin(std::string_view op, cudaStream_t stream) {
  Timed& timed = ops_.emplace_back(Timed{std::string(op), nullptr, nullptr});
  check_cuda(cudaEventCreate(&timed.begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&timed.end), "cudaEventCreate");
  record(timed.begin, stream);
}

void OpTimes::end(cudaStream_t stream) { record(ops_.back().end, stream); }

std::map<std::string, double> OpTimes::us_by_op() const {
  std::map<std::string, double> sums;
  for (const Timed& timed : ops_) {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, timed.begin, timed.end), "cudaEventElapsedTime");
    sums[timed.op] += 1e3 * ms;
  }
  return sums;
}

}  // namespace dcp
