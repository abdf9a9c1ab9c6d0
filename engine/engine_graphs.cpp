// The graphs of an engine: captured, found, destroyed.
#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "engine/engine_state.hpp"
#include "engine/memory_needs.hpp"
#include "runtime/capture_guard.hpp"

namespace dcp {

std::int64_t Engine::rows_to_capture(std::optional<std::int64_t> rows, const Batch* batch) const {
  return rows ? *rows : lay_out(*batch).rows;
}

void Engine::capture(const std::string& name, std::int64_t rows, const Batch* batch) {
  require_capacity(capacity_, rows, 0);
  if (rows < 1) throw StepError("capacity", "graph " + name + " would have no rows");
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
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    step->ranks.emplace_back().shape = plan_.shape(static_cast<int>(rank), rows);
  }
  try {
    each_rank([&](Rank& rank, RankState& state) {
      const Stream origin = state.ubatches[0].compute;
      CaptureGuard guard(rank.runtime, origin, scenario_.graph.capture_mode);
      act(actions, false, rank, origin);
      RankStep captured = make_rank_step(rank, state, *step);
      enqueue_step(rank, state, {.step = *step, .stream = "", .mine = &captured}, odd_);
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
      captured.num_nodes = rank.runtime.record_of(captured.graph).nodes.size();
      step->ranks[rank.index] = std::move(captured);
    });
    std::size_t num_nodes = 0;  // of a rank
    for (const RankStep& rank : step->ranks) num_nodes = std::max(num_nodes, rank.num_nodes);
    std::once_flag taken;  // in a round of all ranks: where one is refused, all are
    each_rank([&](Rank&, RankState&) {
      std::call_once(taken, [&] {
        budget_.take(record_bytes(scenario_, num_nodes),
                     "the record and the audit of graph " + name);
      });
    });
  } catch (...) {  // no rank keeps a graph that the others do not have
    odd_ = {};
    destroy(*step);
    throw;
  }
  step->max_requests = odd_.num_requests;
  step->max_seq_len = odd_.max_seq_len;
  odd_ = {};
  graphs_.push_back(std::move(step));
  drain();  // what left the capture by mistake
}

const EngineStep* Engine::other_graph(const std::string& name, std::int64_t rows,
                                      const Batch* batch) {
  const EngineStep* known = find_graph(name);
  if (known == nullptr) return nullptr;
  const Batch& used = batch != nullptr ? *batch : make_capture_batch(rows);
  const auto cut = cut_ubatches(scenario_, used, lay_out(used).rows, rows);
  return known->rows == rows && known->ubatches == cut ? nullptr : known;
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

const EngineStep* Engine::graph_of(const StepRequest& request) {
  const std::int64_t rows = lay_out(request.batch).rows;
  if (request.graph.empty()) return graph_for(request.batch, rows);
  const EngineStep* step = find_graph(request.graph);
  if (step == nullptr) {
    throw StepError("no_such_graph", "no graph is named '" + request.graph + "'");
  }
  if (rows > step->rows) {
    throw StepError("capacity", "graph " + step->name + " holds " + std::to_string(step->rows) +
                                    " rows, batch " + request.batch.name + " has " +
                                    std::to_string(rows));
  }
  return step;
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
