// The engine as those see it who look at its memory and its graphs.
#include <algorithm>
#include <cstring>
#include <map>

#include "engine/engine_state.hpp"
#include "engine/plan_recorder.hpp"

namespace dcp {

namespace {

BufferUse use_of_input(std::string_view name) {
  return name == "kv_cache" ? BufferUse::kState : BufferUse::kInput;
}

// What is neither the step's own nor part of a workspace outlives it.
BufferUse use_of_step(std::string_view name, const Buffer& buffer, const UbatchStep& step,
                      const Ledger& ledger) {
  if (name == "out" || name == "lse" || name == "kv_gathered") return BufferUse::kOutput;
  const bool is_own = std::any_of(step.owned.begin(), step.owned.end(),
                                  [&](const Buffer& own) { return own.id == buffer.id; });
  const bool is_scratch = is_own || ledger.at(buffer.id).name == "workspace";
  return is_scratch ? BufferUse::kScratch : BufferUse::kState;
}

}  // namespace

std::vector<NamedBuffer> Engine::buffers_of(int rank) const {
  const RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  std::vector<NamedBuffer> all;
  for (const auto& [name, buffer] : state.inputs.buffers().all()) {
    all.push_back({name, -1, use_of_input(name), buffer});
  }
  for (std::size_t u = 0; u < state.ubatches.size(); ++u) {
    const int ubatch = static_cast<int>(u);
    for (const auto& [name, buffer] : state.inputs.metadata(ubatch).all()) {
      all.push_back({name, ubatch, BufferUse::kMetadata, buffer});
    }
    const Workspace& workspace = state.ubatches[u].workspace;
    if (workspace.is_empty()) continue;
    all.push_back({"workspace", ubatch, BufferUse::kScratch, workspace.block()});
  }
  for (const auto& [name, buffer] : state.allocated) {
    all.push_back({name, -1, BufferUse::kHeld, buffer});
  }
  return all;
}

std::vector<NamedBuffer> Engine::buffers_of(const EngineStep& step, const Rank& rank) const {
  const auto& ubatches = step.ranks[static_cast<std::size_t>(rank.index)].ubatches;
  const Ledger& ledger = rank.runtime.ledger();
  std::vector<NamedBuffer> all;
  for (std::size_t u = 0; u < ubatches.size(); ++u) {
    for (const auto& [name, buffer] : ubatches[u].buffers.all()) {
      const BufferUse use = use_of_step(name, buffer, ubatches[u], ledger);
      all.push_back({name, static_cast<int>(u), use, buffer});
    }
  }
  return all;
}

std::vector<PlannedOp> Engine::planned_ops(const EngineStep& step, const Rank& rank) {
  RankState& state = *ranks_[static_cast<std::size_t>(rank.index)];
  std::map<int, std::string> names;
  for (const auto& [name, stream] : state.streams) names[stream.id] = name;
  const auto streams = state.streams;
  PlanRecorder recorder(std::move(names), rank.index, scenario_.world_size, state.ubatches.size());
  Rank recorded{.index = rank.index,
                .runtime = recorder,
                .communicators = recorder.communicators(),
                .peers = rank.peers};
  enqueue_step(recorded, state, {.step = step, .stream = ""}, {});
  state.streams = streams;  // those that the recorder made are not the rank's
  return std::move(recorder.ops());
}

std::vector<MetadataArray> Engine::metadata_of(const StepRun& run, Rank& rank) const {
  const RankState& state = *ranks_[static_cast<std::size_t>(rank.index)];
  std::vector<MetadataArray> arrays;
  for (std::size_t u = 0; u < run.step->ubatches.size(); ++u) {
    const BufferSet& buffers = state.inputs.metadata(static_cast<int>(u));
    for (MetadataValues& each : state.inputs.metadata_values(run.layout, run.step->ubatches, u)) {
      const Buffer& buffer = *buffers.find(each.name);
      const std::size_t count = each.values.size();
      std::vector<std::byte> bytes(buffer.size_bytes);
      rank.runtime.read(bytes.data(), buffer.data, bytes.size());
      std::vector<std::int64_t> found(count);
      const bool is_wide = bytes.size() == count * sizeof(std::int64_t);
      for (std::size_t i = 0; i < count; ++i) {
        if (is_wide) {
          std::memcpy(&found[i], bytes.data() + i * sizeof(std::int64_t), sizeof(std::int64_t));
          continue;
        }
        std::int32_t value = 0;
        std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
        found[i] = value;
      }
      arrays.push_back({.name = std::move(each.name),
                        .ubatch = static_cast<int>(u),
                        .expected = std::move(each.values),
                        .found = std::move(found),
                        .batch_size = each.batch_size});
    }
  }
  return arrays;
}

}  // namespace dcp
