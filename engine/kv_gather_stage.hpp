// The gather of a prefix chunk: of T rows of every rank, [T, Dkv], all N * T rows on every rank, in
// the order of the ranks. Buffer kv_gathered [layers, N * T, Dkv].
#pragma once

#include <memory>

#include "engine/stage.hpp"

namespace dcp {

std::unique_ptr<Stage> make_collective_kv_gather_stage();

// Stores to the peers' slots. For two ranks or more.
std::unique_ptr<Stage> make_direct_kv_gather_stage();

}  // namespace dcp
