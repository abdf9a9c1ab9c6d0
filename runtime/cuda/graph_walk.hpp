// Reads a captured cudaGraph_t back into plain data: what CUDA will really do at a replay, beside
// what the ops declared.
#pragma once

#include <cuda_runtime_api.h>

#include <unordered_map>
#include <vector>

#include "runtime/graph_record.hpp"

namespace dcp {

struct GraphEdges {
  std::vector<cudaGraphNode_t> from;
  std::vector<cudaGraphNode_t> to;
  std::vector<cudaGraphEdgeData> data;
};

GraphEdges edges_of(cudaGraph_t graph);

// `op_of` says which op made a node. What CUDA does not tell of a node (the arguments of a kernel
// that it has no description of) stays empty.
DeviceGraph walk_graph(cudaGraph_t graph, const GraphEdges& edges,
                       const std::unordered_map<cudaGraphNode_t, int>& op_of);

// The ops of which no node is given every address that they declare: among the 8-byte words of a
// kernel's arguments, or a memcpy's addresses and size. Ops without a node had nothing to do.
std::vector<int> ops_without_params(const GraphRecord& record);

}  // namespace dcp
