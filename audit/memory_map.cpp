#include "audit/memory_map.hpp"

#include <algorithm>
#include <numeric>

namespace dcp::audit {

MemoryMap::MemoryMap(const std::vector<Allocation>& allocations)
    : allocations_(allocations), by_address_(allocations.size()) {
  std::iota(by_address_.begin(), by_address_.end(), 0u);
  std::sort(by_address_.begin(), by_address_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Address left = allocations_[a].address;
    const Address right = allocations_[b].address;
    return left != right ? left < right : a < b;
  });
  for (const Allocation& allocation : allocations_) {
    largest_ = std::max(largest_, allocation.size_bytes);
  }
}

std::vector<const Allocation*> MemoryMap::overlapping(Address begin, Address end) const {
  std::vector<const Allocation*> found;
  const Address lowest = begin < largest_ ? 0 : begin - largest_;
  auto next =
      std::lower_bound(by_address_.begin(), by_address_.end(), lowest,
                       [&](std::uint32_t id, Address at) { return allocations_[id].address < at; });
  for (; next != by_address_.end() && allocations_[*next].address < end; ++next) {
    if (allocations_[*next].end() > begin) found.push_back(&allocations_[*next]);
  }
  return found;
}

const Allocation* MemoryMap::meant_by(Address address, Moment moment) const {
  const Allocation* last = nullptr;
  for (const Allocation* candidate : overlapping(address, address + 1)) {
    if (candidate->born > moment) continue;
    const bool is_alive = candidate->is_alive_at(moment);
    const bool last_is_alive = last != nullptr && last->is_alive_at(moment);
    if (last == nullptr || (is_alive && !last_is_alive) ||
        (is_alive == last_is_alive && candidate->died > last->died)) {
      last = candidate;
    }
  }
  return last;
}

}  // namespace dcp::audit
