// What the engine keeps for a rank, for its own sources only.
#pragma once

#include <map>
#include <set>

#include "engine/engine.hpp"
#include "engine/workspace.hpp"

namespace dcp {

// What a rank keeps for a ubatch.
struct UbatchState {
  Stream compute;
  Stream comm;
  Event forked;
  Event joined;
  Event appended;
  BufferSet fixed;      // policy fixed: the workspace's buffers, sized for max_num_tokens
  Workspace workspace;  // policies fixed and growable: shared by all steps
  BufferSet symmetric;  // without the addresses of other ranks
};

// What a rank keeps for the engine's life.
struct Engine::RankState {
  RankState(Rank& rank, const Scenario& scenario, const StepPlan& plan, const Capacity& capacity);

  // The stream that a ubatch computes on, of a step that is enqueued in `origin`.
  Stream lane_stream(Runtime& runtime, int ubatch, Stream origin);

  // The stream of that name, made when first asked for; "" and "compute": the first ubatch's.
  Stream stream(Runtime& runtime, const std::string& name);

  RankInputs inputs;
  std::vector<UbatchState> ubatches;
  std::map<std::string, Stream> streams;    // by name, those that steps named included
  std::set<std::string> forked;             // streams that a step forks off when it begins
  std::set<std::string> joined;             // and joins when it ends
  std::map<int, std::string> placed;        // ubatch -> stream
  Event ordered;                            // for those forks and joins
  std::optional<int> claimed_ubatch;        // that the exchanges of the next step claim to be
  Event outside;                            // never recorded in a capture
  std::map<std::string, Buffer> allocated;  // by steps

  // By steps, in host memory that no device knows.
  std::map<std::string, std::vector<std::byte>> pageable;
};

// Indices of all ranks.
std::vector<int> all_ranks(const Scenario& scenario);

// What a step of the plan asks the workspace for: `rows` of one ubatch.
WorkspaceNeed need_of(const Scenario& scenario, const BufferPlan& plan, std::int64_t rows);

}  // namespace dcp
