#include "strategies/symmetric_buffers.hpp"

#include <algorithm>

namespace dcp {

std::vector<BufferSet> allocate_symmetric(World& world, const BufferPlan& plan) {
  std::vector<BufferSet> sets(static_cast<std::size_t>(world.world_size()));
  for (const BufferSpec& spec : plan.specs()) {
    if (spec.lifetime != Lifetime::kSymmetric) continue;
    const auto buffers = world.allocate_symmetric(spec.name, spec.size_bytes);
    for (std::size_t rank = 0; rank < sets.size(); ++rank) sets[rank].add(spec.name, buffers[rank]);
  }
  return sets;
}

std::vector<std::uint32_t> content_at(const BufferSpec& spec, std::uint32_t epoch,
                                      std::uint32_t num_slots) {
  if (is_state(spec.content)) return {epoch, epoch, epoch, 0, 0};
  if (spec.content == Content::kRows) return {};
  const std::size_t world_size = spec.size_bytes / sizeof(std::uint32_t) / num_slots;
  std::vector<std::uint32_t> flags;
  for (std::uint32_t slot = 0; slot < num_slots; ++slot) {
    flags.insert(flags.end(), world_size, flag_at_rest(epoch, slot, num_slots));
  }
  return flags;
}

void add_symmetric(const BufferPlan& plan, int rank, std::span<const BufferSet* const> sets,
                   BufferSet& to) {
  for (const BufferSpec& spec : plan.specs()) {
    if (spec.lifetime != Lifetime::kSymmetric) continue;
    std::vector<std::byte*> of_ranks;
    for (const BufferSet* set : sets) of_ranks.push_back(set->at<std::byte>(spec.name));
    to.add(spec.name, *sets[static_cast<std::size_t>(rank)]->find(spec.name), std::move(of_ranks));
  }
}

}  // namespace dcp
