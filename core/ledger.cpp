#include "core/ledger.hpp"

#include <algorithm>

namespace dcp {

const Allocation& Ledger::add(std::string name, std::string owner, const std::byte* data,
                              std::size_t size_bytes) {
  const auto same = std::count_if(allocations_.begin(), allocations_.end(), [&](const auto& old) {
    return old.name == name && old.owner == owner;
  });
  allocations_.push_back({.id = static_cast<std::uint32_t>(allocations_.size()),
                          .name = std::move(name),
                          .owner = std::move(owner),
                          .generation = static_cast<std::uint32_t>(same + 1),
                          .data = data,
                          .size_bytes = size_bytes,
                          .born = ++now_});
  return allocations_.back();
}

void Ledger::mark_freed(std::uint32_t id, Ending ending) {
  Allocation& allocation = allocations_.at(id);
  allocation.live = false;
  allocation.died = ++now_;
  allocation.ending = ending;
}

const Allocation* Ledger::find(const void* address) const {
  const Allocation* found = nullptr;
  for (const Allocation& allocation : allocations_) {
    if (!allocation.contains(address)) continue;
    if (found == nullptr || allocation.live || !found->live) found = &allocation;
  }
  return found;
}

}  // namespace dcp
