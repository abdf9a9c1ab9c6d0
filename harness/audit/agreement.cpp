#include "harness/audit/agreement.hpp"

#include <algorithm>

namespace dcp {

bool any_process(World& world, bool mine) {
  const auto num_ranks = static_cast<std::size_t>(world.world_size());
  bool all_are_here = true;
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    all_are_here &= world.has_rank(static_cast<int>(rank));
  }
  if (all_are_here) return mine;
  std::vector<std::vector<std::byte>> said(num_ranks, {static_cast<std::byte>(mine ? 1 : 0)});
  world.share(said);
  return std::any_of(said.begin(), said.end(), [](const std::vector<std::byte>& of_process) {
    return of_process.at(0) != std::byte{0};
  });
}

}  // namespace dcp
