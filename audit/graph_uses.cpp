#include "audit/graph_uses.hpp"

#include <algorithm>

namespace dcp::audit {

GraphUses::GraphUses(const Graph& graph, const MemoryMap& memory)
    : nodes_(graph.nodes), bindings_(graph.bindings), order_(graph.nodes) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const Access& access : node.accesses) {
      if (access.size_bytes == 0) continue;
      Use use{.node = static_cast<int>(i), .access = &access};
      if (const auto* meant = memory.meant_by(access.address, node.captured_at)) {
        use.allocation = meant->id;
        allocations_.push_back(meant->id);
      }
      uses_.push_back(use);
    }
  }
  std::sort(allocations_.begin(), allocations_.end());
  allocations_.erase(std::unique(allocations_.begin(), allocations_.end()), allocations_.end());
  find_conflicts();
}

const Binding* GraphUses::binding_of(std::uint32_t allocation) const {
  for (const Binding& binding : bindings_) {
    if (binding.allocation == allocation) return &binding;
  }
  return nullptr;
}

const Binding* GraphUses::binding_of(const Use& use) const {
  const Binding* found = nullptr;
  for (const Binding& binding : bindings_) {
    const bool holds = use.allocation == binding.allocation &&
                       binding.address <= use.access->address &&
                       use.access->address < binding.address + binding.size_bytes;
    if (holds && (found == nullptr || binding.size_bytes < found->size_bytes)) found = &binding;
  }
  return found;
}

namespace {

// Rows of a later part of a batch are invisible to an earlier part, whose index names none of them;
// two writers are given different elements.
bool touch_other_elements(const Node& a, const Access& of_a, const Node& b, const Access& of_b) {
  if (!of_a.is_indexed || !of_b.is_indexed || a.ubatch == b.ubatch) return false;
  if (a.ubatch < 0 || b.ubatch < 0) return false;
  if (of_a.writes() && of_b.writes()) return true;
  return of_a.writes() ? a.ubatch > b.ubatch : b.ubatch > a.ubatch;
}

}  // namespace

// A sweep over the addresses: whoever writes is held against all that are open, whoever reads
// against the writers.
void GraphUses::find_conflicts() {
  std::vector<const Use*> by_address;
  for (const Use& use : uses_) by_address.push_back(&use);
  std::sort(by_address.begin(), by_address.end(), [](const Use* a, const Use* b) {
    return a->access->address != b->access->address ? a->access->address < b->access->address
                                                    : a < b;
  });
  std::vector<const Use*> readers;
  std::vector<const Use*> writers;
  for (const Use* use : by_address) {
    const Access& mine = *use->access;
    const auto hold_against = [&](std::vector<const Use*>& open) {
      std::erase_if(open, [&](const Use* other) { return other->access->end() <= mine.address; });
      for (const Use* other : open) {
        if (other->node == use->node || order_.orders(other->node, use->node)) continue;
        if (touch_other_elements(nodes_[other->node], *other->access, nodes_[use->node], mine)) {
          continue;
        }
        const bool is_first = other->node < use->node;
        conflicts_.push_back({.first = is_first ? other : use,
                              .second = is_first ? use : other,
                              .begin = mine.address,
                              .end = std::min(mine.end(), other->access->end())});
      }
    };
    hold_against(writers);
    if (mine.writes()) hold_against(readers);
    (mine.writes() ? writers : readers).push_back(use);
  }
}

}  // namespace dcp::audit
