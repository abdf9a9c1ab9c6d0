// What was enqueued during a capture, beside the nodes that CUDA made of it; at the end, the record
// of the captured graph: its edges are those of the cudaGraph_t.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/graph_record.hpp"

namespace dcp {

class GraphLog {
 public:
  // Begins an op on a capturing stream; then note() after each node that CUDA makes of it.
  // `moment` is the ledger's.
  void begin(const OpInfo& op, std::span<const std::byte> params, std::string_view stream_name,
             std::uint64_t moment);
  void note(cudaStream_t stream);

  // Nodes without an op (forks, joins, empty nodes) are replaced by the edges through them.
  GraphRecord record(cudaGraph_t graph) const;

 private:
  std::vector<GraphNode> nodes_;
  std::unordered_map<cudaGraphNode_t, int> node_of_;  // index in nodes_
};

}  // namespace dcp
