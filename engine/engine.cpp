#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "engine/engine_state.hpp"
#include "engine/memory_needs.hpp"
#include "strategies/symmetric_buffers.hpp"

namespace dcp {

namespace {

// Whether steps of more rows than the exchange holds run all the same: their query is gathered, and
// they are combined, in another way.
bool falls_back(const Scenario& scenario, const Strategy& strategy) {
  const bool query_does =
      scenario.query == QueryMode::kDirect && scenario.direct.fallback != DirectFallback::kNone;
  return strategy.uses_peer_memory() ? strategy.falls_back(scenario.direct) : query_does;
}

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace

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
      capacity_(make_capacity(scenario, falls_back(scenario, strategy))),
      plan_(scenario, strategy, capacity_.max_num_tokens, capacity_.max_exchange_tokens),
      budget_(world.has_bytes() ? MemoryBudget() : MemoryBudget(kUnlimited)),
      handed_lse_(scenario.lse) {
  budget_.take(input_bytes(scenario, plan_, capacity_), "the KV cache and the inputs");
  ranks_.resize(static_cast<std::size_t>(world.world_size()));
  world_.each_rank([&](Rank& rank) {
    ranks_[rank.index] = std::make_unique<RankState>(rank, scenario_, plan_, capacity_);
  });
  allocate_exchanges();
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
  try {
    world_.each_rank([&](Rank& rank) { program(rank, *ranks_[rank.index]); });
  } catch (const Failure&) {  // a rank was waited for in vain, while others are within an exchange
    begin_exchanges(0);
    throw;
  } catch (...) {  // what was pending was given up, on some ranks within an exchange
    const bool is_under_way = pending_ || !in_flight_.empty();
    in_flight_.clear();
    if (is_under_way) begin_exchanges(0);
    throw;
  }
}

void Engine::each_rank(const std::vector<int>& ranks,
                       const std::function<void(Rank&, RankState&)>& program) {
  each_rank([&](Rank& rank, RankState& state) {
    if (std::binary_search(ranks.begin(), ranks.end(), rank.index)) program(rank, state);
  });
}

// The ubatch that the exchanges of ubatch `u` of the next step are of.
std::size_t Engine::claimed_by(const RankState& state, std::size_t u) {
  return static_cast<std::size_t>(state.claimed_ubatch.value_or(static_cast<int>(u)));
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
    const UbatchState& owner = state.ubatches[static_cast<std::size_t>(
        odd_.workspace_ubatch.value_or(static_cast<int>(u)))];
    std::vector<const BufferSet*> symmetric;
    const std::size_t claimed = claimed_by(state, u);
    for (const auto& each : ranks_) {
      if (each != nullptr) symmetric.push_back(&each->ubatches[claimed].symmetric);
    }
    add_symmetric(exchanges_, rank.index, symmetric, ubatch.buffers);
    BufferSet shared;
    const WorkspaceNeed need = need_of(scenario_, needed, step.ubatches[u].num_rows);
    if (scenario_.workspace.policy == WorkspacePolicy::kFixed) {
      shared = owner.fixed;
    } else if (scenario_.workspace.policy == WorkspacePolicy::kGrowable) {
      shared = carve_workspace(owner.workspace.block(), needed);
    } else if (need.asked_bytes != need.used_bytes) {
      shared =
          carve_workspace(own("workspace", std::max(need.asked_bytes, need.used_bytes)), needed);
    }
    for (const BufferSpec& spec : needed.specs()) {
      if (spec.lifetime == Lifetime::kSymmetric) continue;
      const Buffer* found = shared.find(spec.name);
      ubatch.buffers.add(spec.name, found != nullptr ? *found : own(spec.name, spec.size_bytes));
    }
  }
  return made;
}

void Engine::enqueue_step(Rank& rank, RankState& state, const StepLanes& to, const Oddities& odd) {
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
    const std::size_t claimed = claimed_by(state, u);
    lanes.push_back({.rank = rank,
                     .collectives = *rank.communicators[claimed],
                     .compute = compute,
                     .comm = own.comm == own.compute ? compute : own.comm,
                     .forked = own.forked,
                     .joined = own.joined,
                     .appended = own.appended,
                     .previous = u == 0 ? nullptr : &lanes[u - 1],
                     .dropped = odd.dropped_edge,
                     .ubatch = static_cast<int>(claimed)});
    inputs.push_back(state.inputs.view(static_cast<int>(u), step.ubatches[u].first_row));
    if (odd.num_requests) inputs[u].batch.num_requests = *odd.num_requests;
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
  } catch (const Failure& failure) {
    forget();
    const bool is_of_wait = failure.kind() == "wait_timeout";
    const std::string why = failure.why() + (is_of_wait ? describe_exchanges() : "");
    begin_exchanges(0);
    throw Failure(failure.kind(), failure.rank(), why);
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

}  // namespace dcp
