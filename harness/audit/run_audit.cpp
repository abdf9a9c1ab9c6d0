#include "harness/audit/run_audit.hpp"

#include <algorithm>
#include <set>

#include "harness/audit/record_source.hpp"

namespace dcp {

RunAudit::RunAudit(World& world)
    : world_(world),
      records_(static_cast<std::size_t>(world.world_size())),
      states_(static_cast<std::size_t>(world.world_size())) {
  for (std::size_t rank = 0; rank < records_.size(); ++rank) {
    records_[rank].rank = static_cast<int>(rank);
  }
}

audit::Findings RunAudit::look(Engine& engine, int step) {
  world_.each_rank([&](Rank& rank) { follow(engine, rank, step); });
  std::set<std::string> fresh;
  bool memory_changed = false;
  for (RankState& state : states_) {
    fresh.insert(state.fresh.begin(), state.fresh.end());
    memory_changed |= state.memory_changed;
    state.fresh.clear();
    state.memory_changed = false;
  }
  if (!memory_changed) return {};
  audit::Findings added;
  std::erase_if(found_, [&](const auto& entry) { return scopes_of(entry.first).empty(); });
  for (const std::string& graph : fresh) {
    found_[graph] = {};
    audit_capture(graph, added);
  }
  for (const auto& graph : engine.graphs()) audit_memory(graph->name, added);
  return added;
}

// A capture allocates, and so does everything else that may concern a graph.
void RunAudit::follow(Engine& engine, Rank& rank, int step) {
  RankState& state = states_[static_cast<std::size_t>(rank.index)];
  audit::RankRecord& record = records_[static_cast<std::size_t>(rank.index)];
  const Ledger& ledger = rank.runtime.ledger();
  if (ledger.now() == state.seen_at) return;
  state.seen_at = ledger.now();
  state.memory_changed = true;
  follow_ledger(ledger, step, record);
  state.memory = std::make_unique<audit::MemoryMap>(record.allocations);
  record.bindings = bindings_of(engine.buffers_of(rank.index));
  follow_graphs(engine, rank);
}

void RunAudit::follow_graphs(Engine& engine, Rank& rank) {
  RankState& state = states_[static_cast<std::size_t>(rank.index)];
  audit::RankRecord& record = records_[static_cast<std::size_t>(rank.index)];
  const auto handle_of = [&](const EngineStep& step) {
    return step.ranks[static_cast<std::size_t>(rank.index)].graph.id;
  };
  for (std::size_t i = state.graphs.size(); i-- > 0;) {
    const bool is_there =
        std::any_of(engine.graphs().begin(), engine.graphs().end(),
                    [&](const auto& step) { return handle_of(*step) == state.graphs[i]; });
    if (is_there) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    state.graphs.erase(state.graphs.begin() + at);
    state.uses.erase(state.uses.begin() + at);
    record.graphs.erase(record.graphs.begin() + at);
  }
  for (const auto& step : engine.graphs()) {
    const int handle = handle_of(*step);
    if (std::find(state.graphs.begin(), state.graphs.end(), handle) != state.graphs.end()) continue;
    std::vector<audit::Binding> bindings = record.bindings;
    const auto own = bindings_of(engine.buffers_of(*step, rank));
    bindings.insert(bindings.end(), own.begin(), own.end());
    record.graphs.push_back(graph_record(*step, rank.runtime.record_of({handle}),
                                         std::move(bindings), engine.planned_ops(*step, rank)));
    state.graphs.push_back(handle);
    state.uses.push_back(std::make_unique<audit::GraphUses>(record.graphs.back(), *state.memory));
    state.fresh.push_back(step->name);
  }
}

std::vector<audit::GraphScope> RunAudit::scopes_of(const std::string& graph) const {
  std::vector<audit::GraphScope> scopes;
  for (std::size_t rank = 0; rank < records_.size(); ++rank) {
    for (std::size_t i = 0; i < records_[rank].graphs.size(); ++i) {
      const audit::Graph& candidate = records_[rank].graphs[i];
      if (candidate.name != graph) continue;
      scopes.push_back({records_[rank], candidate, *states_[rank].uses[i], *states_[rank].memory});
    }
  }
  return scopes;
}

void RunAudit::audit_capture(const std::string& graph, audit::Findings& added) {
  const auto scopes = scopes_of(graph);
  audit::Findings& found = found_[graph].of_capture;
  for (const audit::Rule& rule : audit::all_rules()) {
    for (const audit::GraphScope& scope : scopes) {
      if (rule.of_graph != nullptr) rule.of_graph(scope, found);
    }
    if (rule.of_ranks != nullptr && !scopes.empty()) rule.of_ranks(scopes, found);
  }
  added.insert(added.end(), found.begin(), found.end());
}

void RunAudit::audit_memory(const std::string& graph, audit::Findings& added) {
  audit::Findings now;
  for (const audit::GraphScope& scope : scopes_of(graph)) {
    for (const audit::Rule& rule : audit::all_rules()) {
      if (rule.of_memory != nullptr) rule.of_memory(scope, now);
    }
  }
  audit::Findings& before = found_[graph].of_memory;
  for (const audit::Finding& finding : now) {
    const bool is_known = std::any_of(before.begin(), before.end(), [&](const auto& old) {
      return old.kind == finding.kind && old.rank == finding.rank && old.buffer == finding.buffer &&
             old.generation == finding.generation && old.ubatch == finding.ubatch;
    });
    if (!is_known) added.push_back(finding);
  }
  before = std::move(now);
}

audit::Findings RunAudit::of_graph(const std::string& graph) const {
  const auto found = found_.find(graph);
  if (found == found_.end()) return {};
  audit::Findings all = found->second.of_capture;
  all.insert(all.end(), found->second.of_memory.begin(), found->second.of_memory.end());
  return all;
}

bool RunAudit::binds_freed_memory() const {
  return std::any_of(records_.begin(), records_.end(), [](const audit::RankRecord& record) {
    return std::any_of(
        record.bindings.begin(), record.bindings.end(), [&](const audit::Binding& binding) {
          return record.allocations[binding.allocation].ending == audit::Ending::kFreed;
        });
  });
}

const audit::GraphUses* RunAudit::uses_of(const std::string& graph, int rank) const {
  const auto& graphs = records_[static_cast<std::size_t>(rank)].graphs;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    if (graphs[i].name == graph) return states_[static_cast<std::size_t>(rank)].uses[i].get();
  }
  return nullptr;
}

}  // namespace dcp
