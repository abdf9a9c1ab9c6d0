#include "strategies/exchange.hpp"

namespace dcp {

void plan_exchange(const StepShape& shape, const ExchangeNames& names, BufferPlan& plan) {
  const std::int64_t slots = shape.direct.slots;
  const auto flags = static_cast<std::size_t>(slots * names.num_blocks * shape.world_size);
  plan.add({.name = std::string(names.signals),
            .size_bytes = flags * sizeof(std::uint32_t),
            .lifetime = Lifetime::kSymmetric,
            .content = Content::kFlags});
  plan.add({.name = std::string(names.state),
            .size_bytes = sizeof(ExchangeState),
            .lifetime = Lifetime::kSymmetric,
            .content = names.is_read_in_place ? Content::kPublishedState : Content::kState});
}

}  // namespace dcp
