// A captured graph as plain data: what both backends produce and an auditor reads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/op.hpp"

namespace dcp {

struct GraphNode {
  const OpInfo* op = nullptr;
  std::vector<std::byte> params;  // the argument bytes that capture froze
  std::vector<int> dependencies;  // nodes that must complete first, ascending
  std::string stream;             // the stream that it was captured on
};

struct GraphRecord {
  std::string name;  // "capture 0"
  std::string pool;  // owner, in the ledger, of what was allocated during the capture
  std::vector<GraphNode> nodes;

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
