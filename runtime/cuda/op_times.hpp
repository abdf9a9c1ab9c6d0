// What each op of a captured graph takes on the GPU: event nodes before and after it. They keep ops
// from overlapping at their ends, so a graph that is timed like this is a little slower.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dcp {

class OpTimes {
 public:
  OpTimes() = default;
  OpTimes(const OpTimes&) = delete;
  OpTimes& operator=(const OpTimes&) = delete;
  ~OpTimes();

  // Around the op, on its capturing stream.
  void begin(std::string_view op, cudaStream_t stream);
  void end(cudaStream_t stream);

  // Sum in us over the ops of a name, in the latest launch. Once it has run.
  std::map<std::string, double> us_by_op() const;

 private:
  struct Timed {
    std::string op;
    cudaEvent_t begin;
    cudaEvent_t end;
  };

  std::vector<Timed> ops_;
};

}  // namespace dcp
