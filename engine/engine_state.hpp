// What the engine keeps for a rank, for its own sources only.
#pragma once

#include "engine/engine.hpp"

namespace dcp {

// What a rank keeps for a ubatch.
struct UbatchState {
  Stream compute;
  Stream comm;
  Event forked;
  Event joined;
  Event appended;
  BufferSet workspace;  // policy fixed: sized for max_num_tokens, shared by all steps
};

// What a rank keeps for the engine's life.
struct Engine::RankState {
  RankState(Rank& rank, const Scenario& scenario, const StepPlan& plan, const Capacity& capacity);

  RankInputs inputs;
  std::vector<UbatchState> ubatches;
};

// Fills device memory with NaN. Only while nothing is pending.
void write_poison(Runtime& runtime, std::byte* data, std::size_t size_bytes);

}  // namespace dcp
