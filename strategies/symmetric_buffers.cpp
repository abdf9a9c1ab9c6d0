#include "strategies/symmetric_buffers.hpp"

#include <algorithm>
#include <cstddef>

#include "kernels/direct_lines.hpp"

namespace dcp {

namespace {

constexpr std::size_t kLineWords = sizeof(ExchangeLine) / sizeof(std::uint32_t);
static_assert(offsetof(ExchangeLine, epoch) == sizeof(ExchangeLine) - sizeof(std::uint32_t));

}  // namespace

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
  const std::size_t per_slot = spec.size_bytes / sizeof(std::uint32_t) / num_slots;
  // The last word of a line is its flag.
  const std::size_t step = spec.content == Content::kLines ? kLineWords : 1;
  std::vector<std::uint32_t> words(per_slot * num_slots, 0u);
  for (std::size_t i = step - 1; i < words.size(); i += step) {
    words[i] = flag_at_rest(epoch, static_cast<std::uint32_t>(i / per_slot), num_slots);
  }
  return words;
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
