// What the engine keeps for a rank, for its own sources only.
#pragma once

#include <map>

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

  // The stream of that name, made when first asked for; "" and "compute": the first ubatch's.
  Stream stream(Runtime& runtime, const std::string& name);

  RankInputs inputs;
  std::vector<UbatchState> ubatches;
  std::map<std::string, Stream> streams;  // by name, those that steps named included
};

// Indices of all ranks.
std::vector<int> all_ranks(const Scenario& scenario);

// Bytes of the buffers of a step, on all ranks.
double step_bytes(const StepPlan& plan, const EngineStep& step, int world_size);

// Fills device memory with NaN. Only while nothing is pending.
void write_poison(Runtime& runtime, std::byte* data, std::size_t size_bytes);

}  // namespace dcp
