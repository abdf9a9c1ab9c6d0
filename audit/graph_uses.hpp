// The accesses of a graph's nodes with the allocations that they mean, and the pairs of them that
// conflict.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "audit/graph_order.hpp"
#include "audit/memory_map.hpp"
#include "audit/record.hpp"

namespace dcp::audit {

// One access of one node.
struct Use {
  int node = 0;
  const Access* access = nullptr;
  std::optional<std::uint32_t> allocation = {};  // that it means; none: memory nobody knows
};

// Two uses of the same bytes, at least one of which writes, by nodes that no path orders.
struct Conflict {
  const Use* first = nullptr;
  const Use* second = nullptr;
  Address begin = 0;  // the shared bytes
  Address end = 0;
};

class GraphUses {
 public:
  // Holds on to the graph's nodes and bindings: the graph may be moved, not changed.
  GraphUses(const Graph& graph, const MemoryMap& memory);

  std::span<const Node> nodes() const { return nodes_; }
  const GraphOrder& order() const { return order_; }
  const std::vector<Use>& all() const { return uses_; }  // by node

  // Allocations that the graph means, ascending, none twice.
  const std::vector<std::uint32_t>& allocations() const { return allocations_; }

  // What the graph was captured to use the allocation for; null: it has no name there.
  const Binding* binding_of(std::uint32_t allocation) const;

  // As above, of the part that holds the access: a workspace block has several.
  const Binding* binding_of(const Use& use) const;

  const std::vector<Conflict>& conflicts() const { return conflicts_; }

 private:
  void find_conflicts();

  std::span<const Node> nodes_;
  std::span<const Binding> bindings_;
  GraphOrder order_;
  std::vector<Use> uses_;
  std::vector<std::uint32_t> allocations_;
  std::vector<Conflict> conflicts_;
};

}  // namespace dcp::audit
