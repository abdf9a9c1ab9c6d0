#include "harness/allocation_overlap.hpp"

#include <algorithm>
#include <map>

namespace dcp {

namespace {

using Alive = std::map<std::uint64_t, const audit::Allocation*>;  // by address; none overlap

const audit::Allocation* find_overlapping(const Alive& alive, const audit::Allocation& allocation) {
  const auto above = alive.lower_bound(allocation.address);
  if (above != alive.end() && above->first < allocation.end()) return above->second;
  if (above == alive.begin()) return nullptr;
  const audit::Allocation* below = std::prev(above)->second;
  return below->end() > allocation.address ? below : nullptr;
}

}  // namespace

std::optional<AllocationOverlap> first_overlap(const std::vector<audit::Allocation>& allocations) {
  std::vector<const audit::Allocation*> by_birth, by_death;
  for (const audit::Allocation& each : allocations) {
    if (each.born < each.died) by_birth.push_back(&each);  // the others are never alive
  }
  by_death = by_birth;
  std::ranges::stable_sort(by_birth, {}, &audit::Allocation::born);
  std::ranges::stable_sort(by_death, {}, &audit::Allocation::died);
  Alive alive;
  auto dying = by_death.begin();
  for (const audit::Allocation* each : by_birth) {
    for (; (*dying)->died <= each->born; ++dying) alive.erase((*dying)->address);
    if (const auto* other = find_overlapping(alive, *each)) return AllocationOverlap{other, each};
    alive.emplace(each->address, each);
  }
  return std::nullopt;
}

}  // namespace dcp
