// Running steps: the batch goes into the buffers, the graph is launched or the ops are enqueued,
// and the engine waits or copies the results aside.
#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "engine/engine_state.hpp"
#include "engine/memory_needs.hpp"

namespace dcp {

namespace {

// Launches of one small step are in flight together, as an engine that does not wait leaves them;
// so many that ranks may drift apart, and not so many that they fill the queue of a GPU: about a
// thousand nodes, of which a layer has up to thirty. Where it is full, a launch does not come back
// before the GPU goes on, and a rank that waits for a lost one would not be found waiting.
constexpr std::int64_t kLayersInFlight = 32;
constexpr std::int64_t kMaxPendingLaunches = 512;

std::vector<int> ranks_of(const StepRequest& request, const Scenario& scenario) {
  std::vector<int> ranks = request.ranks.empty() ? all_ranks(scenario) : request.ranks;
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::int64_t launches_in_flight(const Scenario& scenario, const EngineStep& step) {
  const auto layers = scenario.layers * static_cast<std::int64_t>(step.ubatches.size());
  return std::max<std::int64_t>(1, kLayersInFlight / layers);
}

void require_captured_bounds(const EngineStep& step, const BatchLayout& layout) {
  const auto require = [&](std::optional<std::int64_t> bound, std::int64_t value,
                           const std::string& what) {
    if (!bound || value <= *bound) return;
    throw StepError("replay_exceeds_captured_bound",
                    "graph " + step.name + " was captured for " + what + " up to " +
                        std::to_string(*bound) + ", the batch has " + std::to_string(value));
  };
  require(step.max_requests, layout.num_requests(), "numbers of requests");
  const auto longest = std::max_element(layout.seq_lens.begin(), layout.seq_lens.end());
  require(step.max_seq_len, longest == layout.seq_lens.end() ? 0 : *longest, "lengths");
}

}  // namespace

Upload Engine::upload(Rank& rank, Stream stream) const {
  return {rank.runtime, pending_ ? std::optional(stream) : std::nullopt};
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

// A plan has nowhere to load it to, and what it would be staged in is the largest part of a plan.
void Engine::load_metadata(const StepRun& run, const std::string& stream) {
  if (!world_.has_bytes()) return;
  each_rank(run.ranks, [&](Rank& rank, RankState& state) {
    const Stream target = state.stream(rank.runtime, stream);
    Upload to_device = upload(rank, target);
    state.inputs.stage_metadata(to_device, run.layout, run.step->ubatches);
    state.inputs.copy_metadata(target, to_device);
    to_device.finish();
  });
}

void Engine::load(const StepRun& run, const std::string& stream,
                  const std::string& metadata_stream) {
  each_rank(run.ranks, [&](Rank& rank, RankState& state) {
    Upload to_device = upload(rank, state.stream(rank.runtime, stream));
    state.inputs.load_data(to_device, data_, run.layout, run.step->ubatches);
    to_device.finish();
  });
  load_metadata(run, metadata_stream);
}

// A replay that does nothing must not find the right answer of the step before. What attention
// left stays only where the stub says that attention does not touch it.
void Engine::poison_results(const StepRun& run, const std::string& stream) {
  each_rank(run.ranks, [&](Rank& rank, RankState& state) {
    Upload to_device = upload(rank, state.stream(rank.runtime, stream));
    for (const UbatchStep& ubatch : run.step->ranks[rank.index].ubatches) {
      for (const auto& [name, buffer] : ubatch.buffers.all()) {
        const bool partial = name.starts_with("partial_") || name.starts_with("new_");
        if (partial && stub_ == verb::StubMode::kUntouched) continue;
        if (ubatch.buffers.is_symmetric(name)) continue;
        to_device.poison(buffer.data, buffer.size_bytes);
      }
    }
    to_device.finish();
  });
  poison_slots(run);
}

// What a step that is enqueued behind others, or before others, takes until something drains.
void Engine::take_pending(const StepRequest& request, const EngineStep& step,
                          const BatchLayout& layout) {
  if (request.wait && !pending_) return;
  if (pending_launches_ + request.times > kMaxPendingLaunches && !request.wait) {
    throw StepError("capacity", "more than " + std::to_string(kMaxPendingLaunches) +
                                    " launches would be pending: sync between them");
  }
  if (!request.wait) pending_launches_ += request.times;
  double bytes = 2 * step_bytes(scenario_, plan_, step.ubatches) + chunk_bytes(scenario_);
  for (int rank = 0; rank < scenario_.world_size; ++rank) {
    const StepShape shape = plan_.shape(rank, step.rows);
    const double kv_row = static_cast<double>(shape.layers) * shape.kv_row_dim;
    const double cached = 2.0 * scenario_.kv.block_size *
                          static_cast<double>(pages_needed(layout, rank, scenario_.kv.block_size));
    const auto rows = static_cast<double>(capacity_.max_num_tokens);
    bytes += cached * kv_row * static_cast<double>(size_bytes(shape.kv_dtype));
    bytes += rows * (kv_row + shape.num_heads * shape.qk_head_dim) *
             static_cast<double>(size_bytes(shape.dtype));
  }
  budget_.take(bytes, "copies for a step that is pending with others");
}

void Engine::launch(const StepRun& run, const StepRequest& request) {
  const std::int64_t together =
      request.wait ? launches_in_flight(scenario_, *run.step) : request.times;
  in_flight_.insert(run.step);
  for (std::int64_t begun = 0; begun < request.times; begun += together) {
    each_rank(run.ranks, [&](Rank& rank, RankState& state) {
      const Stream stream = state.stream(rank.runtime, request.stream);
      for (std::int64_t i = begun; i < std::min(request.times, begun + together); ++i) {
        rank.runtime.launch(run.step->ranks[rank.index].exec, stream);
      }
    });
    if (request.wait) drain();
  }
}

StepRun Engine::replay(const StepRequest& request) {
  BatchLayout layout = lay_out(request.batch);
  const EngineStep* step = graph_of(request);
  if (step == nullptr) {
    const std::int64_t rows = layout.rows;
    StepRun run = run_eagerly(request, std::move(layout));
    run.eager_rows = rows;
    return run;
  }
  require_captured_bounds(*step, layout);
  require_memory_for_checks(step->rows);
  take_pending(request, *step, layout);
  release_eager_step();
  StepRun run{.step = step, .layout = std::move(layout), .ranks = ranks_of(request, scenario_)};
  poison_results(run, request.stream);
  const auto load_stream = std::exchange(odd_.load_stream, std::nullopt);
  load(run, request.stream, load_stream.value_or(request.stream));
  launch(run, request);
  if (!request.wait) copy_results(run, request.stream);
  return run;
}

StepRun Engine::eager(const StepRequest& request) {
  return run_eagerly(request, lay_out(request.batch));
}

StepRun Engine::run_eagerly(const StepRequest& request, BatchLayout layout) {
  auto step = std::make_unique<EngineStep>();
  step->name = "eager";
  step->rows = layout.rows;
  step->ubatches = cut_ubatches(scenario_, request.batch, layout.rows, layout.rows);
  budget_.take(step_bytes(scenario_, plan_, step->ubatches), "buffers of an eager step");
  require_memory_for_checks(layout.rows);
  require_lse_tag();
  take_pending(request, *step, layout);
  release_eager_step();
  grow_for(*step, ranks_of(request, scenario_));
  eager_ = std::move(step);
  StepRun run{
      .step = eager_.get(), .layout = std::move(layout), .ranks = ranks_of(request, scenario_)};
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    eager_->ranks.emplace_back().shape = plan_.shape(static_cast<int>(rank), eager_->rows);
  }
  each_rank(run.ranks, [&](Rank& rank, RankState& state) {
    eager_->ranks[rank.index] = make_rank_step(rank, state, *eager_);
    if (rank.index != run.ranks.front() || rank.peers == nullptr) return;
    run.waits_at_once = rank.peers->may_wait_at_once(false);
  });
  poison_results(run, request.stream);
  load(run, request.stream, request.stream);
  in_flight_.insert(eager_.get());
  each_rank(run.ranks, [&](Rank& rank, RankState& state) {
    enqueue_step(rank, state, {.step = *eager_, .stream = request.stream}, odd_);
  });
  odd_ = {};
  if (request.wait) {
    drain();
    return run;
  }
  in_flight_.erase(eager_.get());  // pending from here on
  copy_results(run, request.stream);
  release_eager_step();
  return run;
}

void Engine::copy_results(StepRun& run, const std::string& stream) {
  pending_ = true;
  auto copy = std::make_unique<EngineStep>();
  copy->name = run.step->name;
  copy->rows = run.step->rows;
  copy->ubatches = run.step->ubatches;
  run.queries.resize(ranks_.size());
  for (const RankStep& rank : run.step->ranks) copy->ranks.emplace_back().shape = rank.shape;
  each_rank(run.ranks, [&](Rank& rank, RankState& state) {
    const Stream source = state.stream(rank.runtime, stream);
    const auto copied = [&](const Buffer& buffer) {
      const Buffer to = rank.runtime.allocate_pinned("result", buffer.size_bytes);
      rank.runtime.copy(source, to.data, buffer.data, buffer.size_bytes);
      return to;
    };
    for (const UbatchStep& ubatch : run.step->ranks[rank.index].ubatches) {
      UbatchStep& aside = copy->ranks[rank.index].ubatches.emplace_back();
      aside.shape = ubatch.shape;
      for (const auto& [name, buffer] : ubatch.buffers.all()) {
        if (ubatch.buffers.is_symmetric(name)) continue;
        aside.buffers.add(name, aside.owned.emplace_back(copied(buffer)));
      }
    }
    run.queries[rank.index] = copied(*state.inputs.buffers().find("q"));
  });
  run.copy = std::move(copy);
  run.step = run.copy.get();
}

void Engine::release(StepRun& run) {
  if (run.copy == nullptr) return;
  release_buffers(*run.copy);
  each_rank(run.ranks, [&](Rank& rank, RankState&) { rank.runtime.free(run.queries[rank.index]); });
  run.copy.reset();
}

void Engine::release_buffers(EngineStep& step) {
  each_rank([&](Rank& rank, RankState&) {
    for (const UbatchStep& ubatch : step.ranks[rank.index].ubatches) {
      for (const Buffer& buffer : ubatch.owned) rank.runtime.free(buffer);
    }
  });
}

void Engine::release_eager_step() {
  if (eager_ == nullptr) return;
  release_buffers(*eager_);
  eager_.reset();
}

}  // namespace dcp
