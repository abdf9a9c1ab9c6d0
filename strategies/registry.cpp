#include "strategies/registry.hpp"

#include <algorithm>
#include <array>

namespace dcp {

std::span<const Strategy* const> all_strategies() {
  static const std::array strategies = {&ag_rs_strategy(), &ag_ar_strategy(), &a2a_strategy(),
                                        &direct_strategy()};
  return strategies;
}

const Strategy* find_strategy(std::string_view name) {
  const auto all = all_strategies();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Strategy* strategy) { return strategy->name() == name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace dcp
