// The strategies by name, fixed at build time and equal on all ranks.
#pragma once

#include <span>
#include <string_view>

#include "strategies/strategy.hpp"

namespace dcp {

std::span<const Strategy* const> all_strategies();

// Null where no strategy has the name.
const Strategy* find_strategy(std::string_view name);

const Strategy& ag_rs_strategy();
const Strategy& ag_ar_strategy();
const Strategy& a2a_strategy();
const Strategy& direct_strategy();

}  // namespace dcp
