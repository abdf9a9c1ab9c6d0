// What the worlds on a GPU say of what went wrong.
#pragma once

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "kernels/cuda/fault.hpp"
#include "runtime/cuda/cuda_runtime.hpp"

namespace dcp {

Failure failure_of(int rank, const Fault& fault);

// Captured graphs of the rank that hold a collective of op O.
template <Op O>
std::size_t count_graphs_with(const CudaRuntime& runtime) {
  std::size_t count = 0;
  for (const GraphRecord* graph : runtime.live_graphs()) {
    count += std::any_of(graph->nodes.begin(), graph->nodes.end(),
                         [](const GraphNode& node) { return node.op == &kOpInfo<O>; });
  }
  return count;
}

StepError live_graphs_error(std::size_t num_live);

}  // namespace dcp
