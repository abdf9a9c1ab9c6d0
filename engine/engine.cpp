#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "core/error.hpp"
#include "engine/engine_state.hpp"
#include "runtime/capture_guard.hpp"

namespace dcp {

namespace {

// The host backend holds every rank's cache in this machine's memory.
void require_memory(const Scenario& scenario, const Capacity& capacity) {
  const double cache_bytes = static_cast<double>(scenario.world_size) * scenario.layers *
                             static_cast<double>(capacity.num_blocks) * scenario.kv.block_size *
                             scenario.kv_row_dim() *
                             static_cast<double>(size_bytes(scenario.dtype));
  const double memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  constexpr double kShare = 0.4;  // the cache and the copy that it is filled from
  if (cache_bytes <= kShare * memory_bytes) return;
  throw StepError("capacity", "the KV cache of all ranks needs " +
                                  std::to_string(static_cast<std::int64_t>(cache_bytes / 1e9)) +
                                  " GB, more than this machine's memory allows");
}

const Capacity& checked(const Scenario& scenario, const Capacity& capacity) {
  require_memory(scenario, capacity);
  return capacity;
}

}  // namespace

Engine::Engine(const Scenario& scenario, const Strategy& strategy, World& world)
    : scenario_(scenario),
      strategy_(strategy),
      world_(world),
      data_(scenario),
      capacity_(checked(scenario, make_capacity(scenario))),
      plan_(scenario, strategy, capacity_.max_num_tokens) {
  world_.each_rank([&](Rank& rank) {
    ranks_.push_back(std::make_unique<RankState>(rank, scenario_, plan_, capacity_));
  });
}

Engine::~Engine() {
  for (const auto& step : graphs_) {
    try {
      destroy(*step);
    } catch (const StepError&) {
      // A launch that failed is still pending; the world that owns the graph is going away too.
    }
  }
}

void Engine::each_rank(const std::function<void(Rank&, RankState&)>& program) {
  world_.each_rank([&](Rank& rank) { program(rank, *ranks_[rank.index]); });
}

// Allocates what the step needs: inside a capture, that is from the graph's own pool.
RankStep Engine::make_rank_step(Rank& rank, const RankState& state, std::int64_t rows) {
  RankStep step;
  step.shape = plan_.shape(rank.index, rows);
  const BufferPlan needed = plan_.buffers(step.shape);
  for (const BufferSpec& spec : needed.specs()) {
    const Buffer* fixed = state.workspace.find(spec.name);
    step.buffers.add(spec.name,
                     fixed != nullptr ? *fixed : rank.runtime.allocate(spec.name, spec.size_bytes));
  }
  return step;
}

void Engine::enqueue_step(Rank& rank, const RankState& state, const RankStep& step) {
  const Lane lane{.rank = rank,
                  .compute = state.compute,
                  .comm = state.comm,
                  .forked = state.forked,
                  .joined = state.joined};
  enqueue_decode_step(
      plan_,
      {.lane = lane, .shape = step.shape, .buffers = step.buffers, .inputs = state.inputs.view()});
}

void Engine::capture(const std::string& name, std::int64_t rows, const Batch* batch) {
  require_capacity(capacity_, rows, 0);
  const BatchLayout layout = lay_out(batch != nullptr ? *batch : make_capture_batch(rows));
  if (layout.rows > rows) {
    throw StepError("capacity", "graph " + name + " is captured for " + std::to_string(rows) +
                                    " rows, its batch has " + std::to_string(layout.rows));
  }
  release_eager_step();
  load_metadata(layout);
  world_.drain();
  if (find_graph(name) != nullptr) destroy(name);

  auto step = std::make_unique<EngineStep>();
  step->name = name;
  step->rows = rows;
  try {
    each_rank([&](Rank& rank, RankState& state) {
      CaptureGuard guard(rank.runtime, state.compute, scenario_.graph.capture_mode);
      RankStep captured = make_rank_step(rank, state, rows);
      enqueue_step(rank, state, captured);
      captured.graph = guard.end();
      captured.exec = rank.runtime.instantiate(captured.graph);
      step->ranks.push_back(std::move(captured));
    });
  } catch (...) {  // no rank keeps a graph that the others do not have
    destroy(*step);
    throw;
  }
  graphs_.push_back(std::move(step));
}

StepRun Engine::replay(const Batch& batch, const std::string& graph, std::int64_t times) {
  const BatchLayout layout = lay_out(batch);
  const EngineStep* step = graph.empty() ? graph_for(layout.rows) : find_graph(graph);
  if (step == nullptr && !graph.empty()) {
    throw StepError("no_such_graph", "no graph is named '" + graph + "'");
  }
  if (step == nullptr) {
    StepRun run = run_eagerly(layout);
    run.eager_rows = layout.rows;
    return run;
  }
  if (layout.rows > step->rows) {
    throw StepError("capacity", "graph " + step->name + " holds " + std::to_string(step->rows) +
                                    " rows, batch " + batch.name + " has " +
                                    std::to_string(layout.rows));
  }
  release_eager_step();
  poison_results(*step);
  load(layout);
  each_rank([&](Rank& rank, RankState& state) {
    for (std::int64_t i = 0; i < times; ++i) {
      rank.runtime.launch(step->ranks[rank.index].exec, state.compute);
    }
  });
  world_.drain();
  return {.step = step, .layout = layout, .eager_rows = 0};
}

StepRun Engine::eager(const Batch& batch) { return run_eagerly(lay_out(batch)); }

StepRun Engine::run_eagerly(const BatchLayout& layout) {
  release_eager_step();
  eager_ = std::make_unique<EngineStep>();
  eager_->name = "eager";
  eager_->rows = layout.rows;
  each_rank([&](Rank& rank, RankState& state) {
    eager_->ranks.push_back(make_rank_step(rank, state, layout.rows));
  });
  poison_results(*eager_);
  load(layout);
  each_rank(
      [&](Rank& rank, RankState& state) { enqueue_step(rank, state, eager_->ranks[rank.index]); });
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

void Engine::load_metadata(const BatchLayout& layout) {
  each_rank([&](Rank&, RankState& state) { state.inputs.load_metadata(state.compute, layout); });
}

void Engine::load(const BatchLayout& layout) {
  each_rank([&](Rank&, RankState& state) { state.inputs.load_data(data_, layout); });
  load_metadata(layout);
}

// A replay that does nothing must not find the right answer of the step before. What attention
// left stays only where the stub says that attention does not touch it.
void Engine::poison_results(const EngineStep& step) {
  each_rank([&](Rank& rank, RankState&) {
    for (const auto& [name, buffer] : step.ranks[rank.index].buffers.all()) {
      const bool partial = name.starts_with("partial_") || name.starts_with("new_");
      if (partial && stub_ == verb::StubMode::kUntouched) continue;
      write_poison(rank.runtime, buffer.data, buffer.size_bytes);
    }
  });
}

void Engine::release_eager_step() {
  if (eager_ == nullptr) return;
  each_rank([&](Rank& rank, RankState& state) {
    for (const auto& [name, buffer] : eager_->ranks[rank.index].buffers.all()) {
      if (state.workspace.find(name) == nullptr) rank.runtime.free(buffer);
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
    if (rank.index >= static_cast<int>(step.ranks.size())) return;
    rank.runtime.destroy(step.ranks[rank.index].exec);
    rank.runtime.destroy(step.ranks[rank.index].graph);
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

// The smallest graph that holds the rows; of equal ones, the latest.
EngineStep* Engine::graph_for(std::int64_t rows) {
  EngineStep* best = nullptr;
  for (const auto& step : graphs_) {
    if (step->rows >= rows && (best == nullptr || step->rows <= best->rows)) best = step.get();
  }
  return best;
}

}  // namespace dcp
