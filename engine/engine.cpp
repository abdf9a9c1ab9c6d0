#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "engine/engine_state.hpp"
#include "engine/memory_needs.hpp"
#include "runtime/capture_guard.hpp"

namespace dcp {

Engine::RankState::RankState(Rank& rank, const Scenario& scenario, const StepPlan& plan,
                             const Capacity& capacity)
    : inputs(rank.runtime, scenario, plan, capacity, rank.index) {
  const BufferPlan needed = plan.buffers(plan.shape(rank.index, capacity.max_num_tokens));
  for (int u = 0; u < scenario.graph.ubatches; ++u) {
    const std::string suffix = u == 0 ? "" : std::to_string(u);
    UbatchState& ubatch = ubatches.emplace_back();
    ubatch.compute = rank.runtime.make_stream("compute" + suffix);
    ubatch.comm = scenario.comm_stream == CommStream::kSame
                      ? ubatch.compute
                      : rank.runtime.make_stream("comm" + suffix);
    streams["compute" + suffix] = ubatch.compute;
    streams["comm" + suffix] = ubatch.comm;
    ubatch.forked = rank.runtime.make_event();
    ubatch.joined = rank.runtime.make_event();
    ubatch.appended = rank.runtime.make_event();
    if (scenario.workspace.policy != WorkspacePolicy::kFixed) continue;
    // The size pass: whatever any size asks for.
    WorkspaceNeed most = need_of(scenario, needed, capacity.max_num_tokens);
    for (const auto& [rows, bytes] : scenario.workspace.need) {
      most.asked_bytes = std::max(most.asked_bytes, static_cast<std::size_t>(bytes));
    }
    ubatch.workspace.take(rank.runtime, most);
    ubatch.fixed = carve_workspace(ubatch.workspace.block(), needed);
    ubatch.fixed.add("workspace", ubatch.workspace.block());
  }
  ordered = rank.runtime.make_event();
  outside = rank.runtime.make_event();
  if (scenario.graph.pool == GraphPool::kShared) rank.runtime.share_pool();
}

WorkspaceNeed need_of(const Scenario& scenario, const BufferPlan& plan, std::int64_t rows) {
  const std::size_t used = workspace_bytes(plan);
  const auto asked = scenario.workspace.need.find(rows);
  return {.asked_bytes = asked == scenario.workspace.need.end()
                             ? used
                             : static_cast<std::size_t>(asked->second),
          .used_bytes = used};
}

std::vector<int> all_ranks(const Scenario& scenario) {
  std::vector<int> ranks(static_cast<std::size_t>(scenario.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Stream Engine::RankState::stream(Runtime& runtime, const std::string& name) {
  if (name.empty()) return ubatches[0].compute;
  const auto found = streams.find(name);
  if (found != streams.end()) return found->second;
  return streams[name] = runtime.make_stream(name);
}

Stream Engine::RankState::lane_stream(Runtime& runtime, int ubatch, Stream origin) {
  const auto found = placed.find(ubatch);
  if (found != placed.end()) return stream(runtime, found->second);
  return ubatch == 0 ? origin : ubatches[static_cast<std::size_t>(ubatch)].compute;
}

Engine::Engine(const Scenario& scenario, const Strategy& strategy, World& world)
    : scenario_(scenario),
      strategy_(strategy),
      world_(world),
      data_(scenario),
      capacity_(make_capacity(scenario)),
      plan_(scenario, strategy, capacity_.max_num_tokens),
      handed_lse_(scenario.lse) {
  budget_.take(input_bytes(scenario, plan_, capacity_), "the KV cache and the inputs");
  ranks_.resize(static_cast<std::size_t>(world.world_size()));
  world_.each_rank([&](Rank& rank) {
    ranks_[rank.index] = std::make_unique<RankState>(rank, scenario_, plan_, capacity_);
  });
}

Engine::~Engine() {
  for (const auto& step : graphs_) {
    try {
      destroy(*step);
    } catch (...) {
      // A launch that failed is still pending, or memory is out; the world that owns the graph is
      // going away too.
    }
  }
}

void Engine::each_rank(const std::function<void(Rank&, RankState&)>& program) {
  world_.each_rank([&](Rank& rank) { program(rank, *ranks_[rank.index]); });
}

void Engine::each_rank(const std::vector<int>& ranks,
                       const std::function<void(Rank&, RankState&)>& program) {
  each_rank([&](Rank& rank, RankState& state) {
    if (std::binary_search(ranks.begin(), ranks.end(), rank.index)) program(rank, state);
  });
}

// Allocates what the step needs: inside a capture, that is from the graph's own pool.
RankStep Engine::make_rank_step(Rank& rank, const RankState& state, const EngineStep& step) {
  RankStep made;
  made.shape = plan_.shape(rank.index, step.rows);
  for (std::size_t u = 0; u < step.ubatches.size(); ++u) {
    UbatchStep& ubatch = made.ubatches.emplace_back();
    ubatch.shape = plan_.shape(rank.index, step.ubatches[u].num_rows);
    const BufferPlan needed = plan_.buffers(ubatch.shape);
    const auto own = [&](std::string_view buffer_name, std::size_t size_bytes) {
      return ubatch.owned.emplace_back(rank.runtime.allocate(buffer_name, size_bytes));
    };
    BufferSet shared;
    const WorkspaceNeed need = need_of(scenario_, needed, step.ubatches[u].num_rows);
    if (scenario_.workspace.policy == WorkspacePolicy::kFixed) {
      shared = state.ubatches[u].fixed;
    } else if (scenario_.workspace.policy == WorkspacePolicy::kGrowable) {
      shared = carve_workspace(state.ubatches[u].workspace.block(), needed);
    } else if (need.asked_bytes != need.used_bytes) {
      shared =
          carve_workspace(own("workspace", std::max(need.asked_bytes, need.used_bytes)), needed);
    }
    for (const BufferSpec& spec : needed.specs()) {
      const Buffer* found = shared.find(spec.name);
      ubatch.buffers.add(spec.name, found != nullptr ? *found : own(spec.name, spec.size_bytes));
    }
  }
  return made;
}

void Engine::enqueue_step(Rank& rank, RankState& state, const StepLanes& to) {
  const EngineStep& step = to.step;
  const RankStep& mine = to.mine != nullptr ? *to.mine : step.ranks[rank.index];
  std::vector<Lane> lanes;
  std::vector<StepInputs> inputs;
  lanes.reserve(step.ubatches.size());  // lanes point at each other
  inputs.reserve(step.ubatches.size());
  std::vector<StageContext> contexts;
  const Stream origin = state.stream(rank.runtime, to.stream);
  for (const std::string& name : state.forked) {
    rank.runtime.record(state.ordered, origin);
    rank.runtime.wait(state.stream(rank.runtime, name), state.ordered);
  }
  for (std::size_t u = 0; u < step.ubatches.size(); ++u) {
    const UbatchState& own = state.ubatches[u];
    const Stream compute = state.lane_stream(rank.runtime, static_cast<int>(u), origin);
    const auto claimed =
        static_cast<std::size_t>(state.claimed_ubatch.value_or(static_cast<int>(u)));
    lanes.push_back({.rank = rank,
                     .collectives = *rank.communicators[claimed],
                     .compute = compute,
                     .comm = own.comm == own.compute ? compute : own.comm,
                     .forked = own.forked,
                     .joined = own.joined,
                     .appended = own.appended,
                     .previous = u == 0 ? nullptr : &lanes[u - 1]});
    inputs.push_back(state.inputs.view(static_cast<int>(u), step.ubatches[u].first_row));
    contexts.push_back({.lane = lanes[u],
                        .shape = mine.ubatches[u].shape,
                        .buffers = mine.ubatches[u].buffers,
                        .inputs = inputs[u]});
  }
  state.claimed_ubatch.reset();
  enqueue_decode_step(plan_, contexts);
  for (const std::string& name : state.joined) {
    rank.runtime.record(state.ordered, state.stream(rank.runtime, name));
    rank.runtime.wait(origin, state.ordered);
  }
}

std::int64_t Engine::rows_to_capture(std::optional<std::int64_t> rows, const Batch* batch) const {
  return rows ? *rows : lay_out(*batch).rows;
}

void Engine::capture(const std::string& name, std::int64_t rows, const Batch* batch) {
  require_capacity(capacity_, rows, 0);
  const Batch one_token_each = make_capture_batch(rows);
  const Batch& used = batch != nullptr ? *batch : one_token_each;
  const BatchLayout layout = lay_out(used);
  if (layout.rows > rows) {
    throw StepError("capacity", "graph " + name + " is captured for " + std::to_string(rows) +
                                    " rows, its batch has " + std::to_string(layout.rows));
  }
  auto step = std::make_unique<EngineStep>();
  step->name = name;
  step->rows = rows;
  step->ubatches = cut_ubatches(scenario_, used, layout.rows, rows);
  budget_.take(step_bytes(scenario_, plan_, step->ubatches), "buffers of graph " + name);
  release_eager_step();
  const StepRun run{.step = step.get(), .layout = layout, .ranks = all_ranks(scenario_)};
  require_lse_tag();
  grow_for(*step, run.ranks);
  load_metadata(run, "");
  drain();
  if (find_graph(name) != nullptr) destroy(name);

  auto actions = std::exchange(actions_, {});
  step->ranks.resize(ranks_.size());
  try {
    each_rank([&](Rank& rank, RankState& state) {
      const Stream origin = state.ubatches[0].compute;
      CaptureGuard guard(rank.runtime, origin, scenario_.graph.capture_mode);
      act(actions, false, rank, origin);
      RankStep captured = make_rank_step(rank, state, *step);
      enqueue_step(rank, state, {.step = *step, .stream = "", .mine = &captured});
      // What a capture leaves to others of its pool: everything that lives no longer than a launch.
      const bool allocates = std::any_of(actions.begin(), actions.end(),
                                         [](const CaptureAction& action) { return action.at_end; });
      if (scenario_.graph.pool == GraphPool::kShared || allocates) {
        for (const UbatchStep& ubatch : captured.ubatches) {
          for (const Buffer& buffer : ubatch.owned) rank.runtime.free(buffer);
        }
      }
      act(actions, true, rank, origin);
      captured.graph = guard.end();
      captured.exec = rank.runtime.instantiate(captured.graph);
      step->ranks[rank.index] = std::move(captured);
    });
  } catch (...) {  // no rank keeps a graph that the others do not have
    destroy(*step);
    throw;
  }
  graphs_.push_back(std::move(step));
  drain();  // what left the capture by mistake
}

void Engine::destroy(const std::string& graph) {
  EngineStep* step = find_graph(graph);
  if (step == nullptr) throw StepError("no_such_graph", "no graph is named '" + graph + "'");
  if (in_flight_.count(step) > 0) {
    throw StepError("graph_in_flight",
                    "graph " + graph + " has a launch that nobody has waited for");
  }
  destroy(*step);
  std::erase_if(graphs_, [&](const auto& candidate) { return candidate.get() == step; });
}

void Engine::destroy(EngineStep& step) {
  each_rank([&](Rank& rank, RankState&) {
    const RankStep& captured = step.ranks[rank.index];
    if (captured.exec == GraphExec{}) return;  // the capture was refused before this rank's turn
    rank.runtime.destroy(captured.exec);
    rank.runtime.destroy(captured.graph);
  });
}

void Engine::destroy_communicators() {
  drain();
  world_.destroy_communicators();
}

void Engine::drain() {
  const auto forget = [&] {
    pending_ = false;
    pending_launches_ = 0;
    in_flight_.clear();
  };
  try {
    world_.drain();
  } catch (...) {
    forget();
    throw;
  }
  forget();
}

void Engine::set_stub(verb::StubMode mode) {
  stub_ = mode;
  each_rank([&](Rank& rank, RankState& state) {
    Upload to_device = upload(rank, state.ubatches[0].compute);
    state.inputs.set_stub(to_device, mode);
    to_device.finish();
  });
}

std::vector<std::int64_t> Engine::graph_sizes() const {
  std::set<std::int64_t> sizes;
  for (const auto& graph : graphs_) sizes.insert(graph->rows);
  return {sizes.begin(), sizes.end()};
}

EngineStep* Engine::find_graph(const std::string& name) {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(),
                                  [&](const auto& step) { return step->name == name; });
  return found == graphs_.end() ? nullptr : found->get();
}

// The smallest graph that holds the rows and has the batch's ubatches; of equal ones, the latest.
EngineStep* Engine::graph_for(const Batch& batch, std::int64_t rows) {
  EngineStep* best = nullptr;
  for (const auto& step : graphs_) {
    if (step->rows < rows || (best != nullptr && step->rows > best->rows)) continue;
    if (cut_ubatches(scenario_, batch, rows, step->rows) == step->ubatches) best = step.get();
  }
  return best;
}

}  // namespace dcp
