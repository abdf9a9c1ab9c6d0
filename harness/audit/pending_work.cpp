#include "harness/audit/pending_work.hpp"

#include <algorithm>
#include <set>

#include "audit/describe.hpp"
#include "harness/audit/record_source.hpp"
#include "runtime/hold_op.hpp"
#include "runtime/memcpy_op.hpp"
#include "runtime/poison_op.hpp"

namespace dcp {

void PendingWork::added(TaskId id, const Task& task, std::span<const TaskId> dependencies) {
  if (next_ != nullptr) next_->added(id, task, dependencies);
  if (max_launches_ == 0) return;
  const bool in_graph = !task.stream.empty();
  std::int64_t& marks = launches_[task.rank];
  if (task.op == nullptr && !in_graph) {  // a launch begins or ends
    ++num_launches_;
    ++marks;
  }
  if (marks > 2 * max_launches_) return;
  Work& work = work_[task.rank].emplace_back();
  work.id = id;
  work.step = step_;
  work.launch = in_graph ? num_launches_ : -1;
  work.dependencies.assign(dependencies.begin(), dependencies.end());
  work.is_copy = !in_graph && task.op == &kOpInfo<MemcpyOp>;
  work.node.stream = in_graph ? std::string(task.stream) : task.where;
  if (task.op == nullptr || task.op == &kOpInfo<HoldOp> || task.op == &kOpInfo<PoisonFreed>) return;
  work.node.op = task.op->label == nullptr ? task.op->name : task.op->label(task.params);
  std::vector<Access> accesses;
  task.op->accesses(task.params, accesses);
  for (const Access& access : accesses) work.node.accesses.push_back(audit_access(access));
}

std::size_t PendingWork::num_noted() const {
  std::size_t count = 0;
  for (const auto& [rank, all] : work_) count += all.size();
  return count;
}

void PendingWork::stepped(TaskId id, const Task& task, bool done) {
  if (next_ != nullptr) next_->stepped(id, task, done);
}

void PendingWork::abandoned() {
  forget();
  if (next_ != nullptr) next_->abandoned();
}

namespace {

std::string mode_text(const audit::Access& access) {
  return access.writes() ? " writes " : " reads ";
}

}  // namespace

// The pending tasks of a rank as the nodes of one graph: what orders them is the same.
audit::Graph PendingWork::graph_of(const std::vector<Work>& all) {
  audit::Graph pending;
  for (const Work& work : all) {
    audit::Node& node = pending.nodes.emplace_back(work.node);
    node.captured_at = audit::kNever - 1;
    for (const TaskId id : work.dependencies) {
      const auto at =
          std::lower_bound(all.begin(), all.end(), id,
                           [](const Work& each, TaskId wanted) { return each.id < wanted; });
      if (at == all.end() || at->id != id) continue;  // done before anyone watched
      node.dependencies.push_back({.node = static_cast<int>(at - all.begin())});
    }
  }
  return pending;
}

// By the other step. Where computations of both conflict, that their copies do has the same cause.
std::map<int, PendingWork::Race> PendingWork::races_of(
    const std::vector<Work>& all, const std::vector<audit::Conflict>& conflicts) const {
  std::map<int, Race> races;
  for (const audit::Conflict& conflict : conflicts) {
    const Work& a = all[static_cast<std::size_t>(conflict.first->node)];
    const Work& b = all[static_cast<std::size_t>(conflict.second->node)];
    const bool is_of_copy = a.is_copy || b.is_copy;
    if (a.step != step_ && b.step != step_) continue;
    // Of one step: nodes of a graph are looked at with it; slots of an eager step's ubatches
    // differ.
    const bool is_eager =
        a.launch < 0 && b.launch < 0 &&
        !(conflict.first->access->is_indexed && conflict.second->access->is_indexed);
    if (a.step == b.step && !is_of_copy && !is_eager) continue;
    const Race race{is_of_copy, &conflict};
    const auto [at, is_new] = races.try_emplace(a.step == step_ ? b.step : a.step, race);
    if (!is_new && at->second.is_of_copy && !is_of_copy) at->second = race;
  }
  return races;
}

audit::Finding PendingWork::finding_of(const Race& race, const std::vector<Work>& all,
                                       const audit::RankRecord& record) const {
  const audit::Use& first = *race.conflict->first;
  const audit::Use& second = *race.conflict->second;
  const Work& a = all[static_cast<std::size_t>(first.node)];
  const Work& b = all[static_cast<std::size_t>(second.node)];
  const audit::Use& mine = b.step == step_ ? second : first;
  // One copy fills several buffers: what is not a copy says which of them it is about.
  const audit::Use& named = a.is_copy == b.is_copy ? mine : a.is_copy ? second : first;
  audit::Finding finding{.kind = race.is_of_copy ? "missing_edge" : "unordered_access",
                         .node = b.step == step_ ? b.node.op : a.node.op,
                         .argument = mine.access->argument,
                         .rank = record.rank};
  if (named.allocation) {
    finding.buffer = record.allocations[*named.allocation].name;
    finding.generation = record.allocations[*named.allocation].generation;
  }
  finding.why = a.node.op + " of step " + std::to_string(a.step) + " on " + a.node.stream +
                mode_text(*first.access) + finding.buffer + ", " + b.node.op + " of step " +
                std::to_string(b.step) + " on " + b.node.stream + mode_text(*second.access) +
                "it, and no stream, event or launch orders them";
  finding.advice = race.is_of_copy ? "let the launch's stream wait for an event after the copy"
                                   : "launch both in one stream, order them by an event, or give "
                                     "each its own memory";
  return finding;
}

// Memory that ends while the step is enqueued was of the step before, which is done.
void PendingWork::find_freed_uses(const std::vector<Work>& all, const audit::GraphUses& uses,
                                  const audit::RankRecord& record,
                                  std::vector<audit::Finding>& found) const {
  std::set<std::uint32_t> reported;
  for (const audit::Use& use : uses.all()) {
    const Work& work = all[static_cast<std::size_t>(use.node)];
    if (work.step != step_ || !use.allocation) continue;
    const audit::Allocation& allocation = record.allocations[*use.allocation];
    const bool was_freed =
        allocation.ending == audit::Ending::kFreed && allocation.died_in_step < step_;
    if (!was_freed || !reported.insert(allocation.id).second) continue;
    found.push_back({.kind = "use_after_free",
                     .node = work.node.op,
                     .argument = use.access->argument,
                     .buffer = allocation.name,
                     .generation = allocation.generation,
                     .rank = record.rank,
                     .why = work.node.op + " of step " + std::to_string(step_) + " on " +
                            work.node.stream + mode_text(*use.access) +
                            audit::buffer_text(allocation) + ", " + audit::life_story(allocation),
                     .advice = "run the step before the buffer is given back, or give it one that "
                               "lives"});
  }
}

std::vector<audit::Finding> PendingWork::look(const std::vector<audit::RankRecord>& ranks,
                                              const std::string& graph,
                                              std::vector<int>& others) const {
  std::vector<audit::Finding> found;
  for (const auto& [rank, all] : work_) {
    const audit::RankRecord& record = ranks[static_cast<std::size_t>(rank)];
    const audit::Graph pending = graph_of(all);
    const audit::GraphUses uses(pending, audit::MemoryMap(record.allocations));
    for (const auto& [other, race] : races_of(all, uses.conflicts())) {
      if (other != step_) others.push_back(other);
      found.push_back(finding_of(race, all, record));
      found.back().graph = graph;
    }
    if (graph.empty()) find_freed_uses(all, uses, record, found);
  }
  return found;
}

}  // namespace dcp
