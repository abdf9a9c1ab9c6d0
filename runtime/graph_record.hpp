// A captured graph as plain data: what both backends produce and an auditor reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/op.hpp"

namespace dcp {

struct GraphNode {
  const OpInfo* op = nullptr;
  std::vector<std::byte> params;  // the argument bytes that capture froze
  std::vector<int> dependencies;  // nodes that must complete first, ascending
  std::string stream;             // the stream that it was captured on
  std::uint64_t captured_at = 0;  // Ledger::now() of its rank
};

enum class DeviceNodeKind : std::uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kHost,
  kEvent,
  kEmpty,
  kOther
};

// A node of the graph that the backend replays, as it was read back: an op may be several kernels,
// and a node may come from no op.
struct DeviceNode {
  DeviceNodeKind kind = DeviceNodeKind::kOther;
  int op = -1;                                    // index in GraphRecord::nodes; -1: of no op
  std::string function;                           // of a kernel, as the compiler named it
  std::vector<std::vector<std::byte>> arguments;  // of a kernel, the bytes of each
  const void* from = nullptr;                     // of a memcpy
  const void* to = nullptr;                       // of a memcpy or memset
  std::size_t size_bytes = 0;                     // as above
};

struct DeviceEdge {
  int from = 0;
  int to = 0;
  // The consumer may begin before the producer has completed, and waits for it itself.
  bool is_programmatic = false;
  std::uint8_t from_port = 0;  // CUDA's; 0: completion of the producer
  std::uint8_t to_port = 0;
};

// Empty on the host backend, which replays the record itself.
struct DeviceGraph {
  std::vector<DeviceNode> nodes;
  std::vector<DeviceEdge> edges;
  std::vector<int> ops_without_params;  // whose addresses are not among what their nodes are given

  std::size_t count(DeviceNodeKind kind) const {
    return static_cast<std::size_t>(std::count_if(
        nodes.begin(), nodes.end(), [&](const DeviceNode& node) { return node.kind == kind; }));
  }
};

struct GraphRecord {
  std::string name;  // "capture 0"
  std::string pool;  // owner, in the ledger, of what was allocated during the capture
  std::vector<GraphNode> nodes;
  DeviceGraph device = {};

  std::size_t num_edges() const {
    std::size_t count = 0;
    for (const GraphNode& node : nodes) count += node.dependencies.size();
    return count;
  }

  // For each node, whether it is one of `targets` or must complete before one of them.
  std::vector<bool> ancestors_of(const std::vector<int>& targets) const {
    std::vector<bool> reached(nodes.size(), false);
    for (const int target : targets) reached[target] = true;
    for (std::size_t i = nodes.size(); i-- > 0;) {  // edges point from lower to higher nodes
      if (!reached[i]) continue;
      for (const int dependency : nodes[i].dependencies) reached[dependency] = true;
    }
    return reached;
  }
};

}  // namespace dcp
