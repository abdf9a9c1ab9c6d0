#include <algorithm>
#include <cassert>

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
    ubatch.forked = rank.runtime.make_event();
    ubatch.joined = rank.runtime.make_event();
    ubatch.appended = rank.runtime.make_event();
    if (scenario.workspace.policy != WorkspacePolicy::kFixed) continue;
    for (const BufferSpec& spec : needed.specs()) {
      if (spec.lifetime != Lifetime::kWorkspace) continue;
      ubatch.workspace.add(spec.name, rank.runtime.allocate(spec.name, spec.size_bytes));
    }
  }
}

Engine::Engine(const Scenario& scenario, const Strategy& strategy, World& world)
    : scenario_(scenario),
      strategy_(strategy),
      world_(world),
      data_(scenario),
      capacity_(make_capacity(scenario)),
      plan_(scenario, strategy, capacity_.max_num_tokens) {
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

// Allocates what the step needs: inside a capture, that is from the graph's own pool.
RankStep Engine::make_rank_step(Rank& rank, const RankState& state, const EngineStep& step) {
  RankStep made;
  made.shape = plan_.shape(rank.index, step.rows);
  for (std::size_t u = 0; u < step.ubatches.size(); ++u) {
    UbatchStep& ubatch = made.ubatches.emplace_back();
    ubatch.shape = plan_.shape(rank.index, step.ubatches[u].num_rows);
    const BufferPlan needed = plan_.buffers(ubatch.shape);
    for (const BufferSpec& spec : needed.specs()) {
      const Buffer* fixed = state.ubatches[u].workspace.find(spec.name);
      ubatch.buffers.add(
          spec.name, fixed != nullptr ? *fixed : rank.runtime.allocate(spec.name, spec.size_bytes));
    }
  }
  return made;
}

void Engine::enqueue_step(Rank& rank, const RankState& state, const EngineStep& step,
                          const RankStep& mine) {
  std::vector<Lane> lanes;
  std::vector<StepInputs> inputs;
  lanes.reserve(step.ubatches.size());  // lanes point at each other
  inputs.reserve(step.ubatches.size());
  std::vector<StageContext> contexts;
  for (std::size_t u = 0; u < step.ubatches.size(); ++u) {
    const UbatchState& own = state.ubatches[u];
    lanes.push_back({.rank = rank,
                     .collectives = *rank.communicators[u],
                     .compute = own.compute,
                     .comm = own.comm,
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
  enqueue_decode_step(plan_, contexts);
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
  load_metadata(layout, step->ubatches);
  world_.drain();
  if (find_graph(name) != nullptr) destroy(name);

  step->ranks.resize(ranks_.size());
  try {
    each_rank([&](Rank& rank, RankState& state) {
      CaptureGuard guard(rank.runtime, state.ubatches[0].compute, scenario_.graph.capture_mode);
      RankStep captured = make_rank_step(rank, state, *step);
      enqueue_step(rank, state, *step, captured);
      captured.graph = guard.end();
      captured.exec = rank.runtime.instantiate(captured.graph);
      step->ranks[rank.index] = std::move(captured);
    });
  } catch (...) {  // no rank keeps a graph that the others do not have
    destroy(*step);
    throw;
  }
  graphs_.push_back(std::move(step));
}

StepRun Engine::replay(const Batch& batch, const std::string& graph, std::int64_t times) {
  const BatchLayout layout = lay_out(batch);
  const EngineStep* step = graph.empty() ? graph_for(batch, layout.rows) : find_graph(graph);
  if (step == nullptr && !graph.empty()) {
    throw StepError("no_such_graph", "no graph is named '" + graph + "'");
  }
  if (step == nullptr) {
    StepRun run = run_eagerly(batch, layout);
    run.eager_rows = layout.rows;
    return run;
  }
  if (layout.rows > step->rows) {
    throw StepError("capacity", "graph " + step->name + " holds " + std::to_string(step->rows) +
                                    " rows, batch " + batch.name + " has " +
                                    std::to_string(layout.rows));
  }
  require_memory_for_checks(step->rows);
  release_eager_step();
  poison_results(*step);
  load(layout, step->ubatches);
  // Launches of one step are in flight together, as an engine that does not wait leaves them; so
  // many that ranks may drift apart, and not so many that they fill the memory.
  constexpr std::int64_t kLaunchesInFlight = 64;
  for (std::int64_t begun = 0; begun < times; begun += kLaunchesInFlight) {
    each_rank([&](Rank& rank, RankState& state) {
      for (std::int64_t i = begun; i < std::min(times, begun + kLaunchesInFlight); ++i) {
        rank.runtime.launch(step->ranks[rank.index].exec, state.ubatches[0].compute);
      }
    });
    world_.drain();
  }
  return {.step = step, .layout = layout, .eager_rows = 0};
}

StepRun Engine::eager(const Batch& batch) { return run_eagerly(batch, lay_out(batch)); }

StepRun Engine::run_eagerly(const Batch& batch, const BatchLayout& layout) {
  auto step = std::make_unique<EngineStep>();
  step->name = "eager";
  step->rows = layout.rows;
  step->ubatches = cut_ubatches(scenario_, batch, layout.rows, layout.rows);
  budget_.take(step_bytes(scenario_, plan_, step->ubatches), "buffers of an eager step");
  require_memory_for_checks(layout.rows);
  release_eager_step();
  eager_ = std::move(step);
  eager_->ranks.resize(ranks_.size());
  each_rank([&](Rank& rank, RankState& state) {
    eager_->ranks[rank.index] = make_rank_step(rank, state, *eager_);
  });
  poison_results(*eager_);
  load(layout, eager_->ubatches);
  each_rank([&](Rank& rank, RankState& state) {
    enqueue_step(rank, state, *eager_, eager_->ranks[rank.index]);
  });
  world_.drain();
  return {.step = eager_.get(), .layout = layout, .eager_rows = 0};
}

// Everything about a batch that can be wrong, before anything is loaded.
BatchLayout Engine::lay_out(const Batch& batch) const {
  BatchLayout layout = make_batch_layout(scenario_, batch);
  require_capacity(capacity_, layout.rows, layout.num_requests());
  for (int rank = 0; rank < scenario_.world_size; ++rank) {
    const std::int64_t pages = pages_needed(layout, rank, scenario_.kv.block_size);
    if (pages <= capacity_.num_blocks) continue;
    throw StepError("capacity", "rank " + std::to_string(rank) + " needs " + std::to_string(pages) +
                                    " pages of KV cache, page 0 included, and has " +
                                    std::to_string(capacity_.num_blocks));
  }
  return layout;
}

void Engine::require_memory_for_checks(std::int64_t rows) const {
  budget_.require(check_bytes(scenario_, plan_.shape(0, rows)), "copies that check the results");
}

void Engine::load_metadata(const BatchLayout& layout, const std::vector<Ubatch>& ubatches) {
  each_rank([&](Rank&, RankState& state) {
    state.inputs.load_metadata(state.ubatches[0].compute, layout, ubatches);
  });
}

void Engine::load(const BatchLayout& layout, const std::vector<Ubatch>& ubatches) {
  each_rank([&](Rank&, RankState& state) { state.inputs.load_data(data_, layout); });
  load_metadata(layout, ubatches);
}

// A replay that does nothing must not find the right answer of the step before. What attention
// left stays only where the stub says that attention does not touch it.
void Engine::poison_results(const EngineStep& step) {
  each_rank([&](Rank& rank, RankState&) {
    for (const UbatchStep& ubatch : step.ranks[rank.index].ubatches) {
      for (const auto& [name, buffer] : ubatch.buffers.all()) {
        const bool partial = name.starts_with("partial_") || name.starts_with("new_");
        if (partial && stub_ == verb::StubMode::kUntouched) continue;
        write_poison(rank.runtime, buffer.data, buffer.size_bytes);
      }
    }
  });
}

void Engine::release_eager_step() {
  if (eager_ == nullptr) return;
  each_rank([&](Rank& rank, RankState& state) {
    const auto& ubatches = eager_->ranks[rank.index].ubatches;
    for (std::size_t u = 0; u < ubatches.size(); ++u) {
      for (const auto& [name, buffer] : ubatches[u].buffers.all()) {
        if (state.ubatches[u].workspace.find(name) == nullptr) rank.runtime.free(buffer);
      }
    }
  });
  eager_.reset();
}

void Engine::destroy(const std::string& graph) {
  EngineStep* step = find_graph(graph);
  if (step == nullptr) throw StepError("no_such_graph", "no graph is named '" + graph + "'");
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

void Engine::set_stub(verb::StubMode mode) {
  stub_ = mode;
  each_rank([&](Rank&, RankState& state) { state.inputs.set_stub(mode); });
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
