#include "runtime/cuda/graph_log.hpp"

#include <algorithm>
#include <set>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/graph_walk.hpp"

namespace dcp {

void GraphLog::begin(const OpInfo& op, std::span<const std::byte> params,
                     std::string_view stream_name, std::uint64_t moment) {
  nodes_.push_back({.op = &op,
                    .params = {params.begin(), params.end()},
                    .dependencies = {},
                    .stream = std::string(stream_name),
                    .captured_at = moment});
}

void GraphLog::note(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* last = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  check_cuda(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, nullptr, &count),
             "cudaStreamGetCaptureInfo");
#else
  check_cuda(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &last, &count),
             "cudaStreamGetCaptureInfo");
#endif
  // An op that had nothing to do made no node: the last one is another op's.
  if (count == 1) node_of_.try_emplace(last[0], static_cast<int>(nodes_.size()) - 1);
}

GraphRecord GraphLog::record(cudaGraph_t graph) const {
  std::unordered_map<cudaGraphNode_t, std::vector<cudaGraphNode_t>> before;
  const GraphEdges edges = edges_of(graph);
  for (std::size_t i = 0; i < edges.from.size(); ++i) before[edges.to[i]].push_back(edges.from[i]);

  GraphRecord record;
  record.nodes = nodes_;
  record.device = walk_graph(graph, edges, node_of_);
  record.device.ops_without_params = ops_without_params(record);
  for (const auto& [node, index] : node_of_) {
    std::set<int> dependencies;
    std::set<cudaGraphNode_t> seen;
    std::vector<cudaGraphNode_t> open = {node};
    while (!open.empty()) {
      const cudaGraphNode_t at = open.back();
      open.pop_back();
      for (const cudaGraphNode_t other : before[at]) {
        if (!seen.insert(other).second) continue;
        const auto found = node_of_.find(other);
        if (found != node_of_.end() && found->second != index) {
          dependencies.insert(found->second);
        } else {
          open.push_back(other);  // no op's node, or an earlier one of the same op
        }
      }
    }
    auto& all = record.nodes[static_cast<std::size_t>(index)].dependencies;
    dependencies.insert(all.begin(), all.end());
    all.assign(dependencies.begin(), dependencies.end());
  }
  return record;
}

}  // namespace dcp
