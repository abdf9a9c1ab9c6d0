// What the engine keeps for a rank, for its own sources only.
#pragma once

#include "engine/engine.hpp"

namespace dcp {

// What a rank keeps for the engine's life.
struct Engine::RankState {
  RankState(Rank& rank, const Scenario& scenario, const StepPlan& plan, const Capacity& capacity)
      : compute(rank.runtime.make_stream("compute")),
        comm(scenario.comm_stream == CommStream::kSame ? compute
                                                       : rank.runtime.make_stream("comm")),
        forked(rank.runtime.make_event()),
        joined(rank.runtime.make_event()),
        inputs(rank.runtime, scenario, plan, capacity, rank.index) {
    if (scenario.workspace.policy != WorkspacePolicy::kFixed) return;
    const StepShape largest = plan.shape(rank.index, capacity.max_num_tokens);
    const BufferPlan needed = plan.buffers(largest);
    for (const BufferSpec& spec : needed.specs()) {
      if (spec.lifetime != Lifetime::kWorkspace) continue;
      workspace.add(spec.name, rank.runtime.allocate(spec.name, spec.size_bytes));
    }
  }

  Stream compute;
  Stream comm;
  Event forked;
  Event joined;
  RankInputs inputs;
  BufferSet workspace;  // policy fixed: sized for max_num_tokens, shared by all steps
};

// Fills device memory with NaN. Only while nothing is pending.
void write_poison(Runtime& runtime, std::byte* data, std::size_t size_bytes);

}  // namespace dcp
