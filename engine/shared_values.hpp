// Makes what each process read of its own ranks known to all processes of a run.
#pragma once

#include "comm/world.hpp"
#include "engine/engine.hpp"

namespace dcp {

void share(World& world, LayerValues& values);
void share(World& world, LayerBits& bits);

}  // namespace dcp
