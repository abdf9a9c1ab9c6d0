// What the processes of a run must decide alike, because what follows is collective among them.
#pragma once

#include "comm/world.hpp"

namespace dcp {

// Whether any process says so. Every process must ask.
bool any_process(World& world, bool mine);

}  // namespace dcp
