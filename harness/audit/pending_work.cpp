#include "harness/audit/pending_work.hpp"

#include <algorithm>
#include <set>

#include "audit/graph_uses.hpp"
#include "harness/audit/record_source.hpp"
#include "runtime/hold_op.hpp"
#include "runtime/memcpy_op.hpp"
#include "runtime/poison_op.hpp"

namespace dcp {

void PendingWork::added(TaskId id, const Task& task, std::span<const TaskId> dependencies) {
  if (next_ != nullptr) next_->added(id, task, dependencies);
  if (!is_watching_) return;
  const bool in_graph = !task.stream.empty();
  if (task.op == nullptr && !in_graph) ++num_launches_;  // a launch begins or ends
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

void PendingWork::stepped(TaskId id, const Task& task, bool done) {
  if (next_ != nullptr) next_->stepped(id, task, done);
}

void PendingWork::abandoned() {
  forget();
  if (next_ != nullptr) next_->abandoned();
}

namespace {

// What one step does without an order to another.
struct Race {
  std::string kind;
  const audit::Conflict* conflict;
};

std::string mode_text(const audit::Access& access) {
  return access.writes() ? " writes " : " reads ";
}

}  // namespace

std::vector<audit::Finding> PendingWork::look(const std::vector<audit::RankRecord>& ranks,
                                              const std::string& graph,
                                              std::vector<int>& others) const {
  std::vector<audit::Finding> found;
  for (const auto& [rank, all] : work_) {
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
    const audit::RankRecord& record = ranks[static_cast<std::size_t>(rank)];
    const audit::GraphUses uses(pending, audit::MemoryMap(record.allocations));
    std::map<int, Race> races;  // by the other step
    for (const audit::Conflict& conflict : uses.conflicts()) {
      const Work& a = all[static_cast<std::size_t>(conflict.first->node)];
      const Work& b = all[static_cast<std::size_t>(conflict.second->node)];
      if (a.step != step_ && b.step != step_) continue;
      const bool is_of_copy = a.is_copy || b.is_copy;
      if (a.step == b.step && !is_of_copy) continue;  // the graph's own, or launches in a row
      const int other = a.step == step_ ? b.step : a.step;
      const std::string kind = is_of_copy ? "missing_edge" : "unordered_access";
      const auto [at, is_new] = races.try_emplace(other, Race{kind, &conflict});
      if (!is_new && at->second.kind == "missing_edge" && !is_of_copy) {
        at->second = {kind, &conflict};
      }
    }
    for (const auto& [other, race] : races) {
      if (other != step_) others.push_back(other);
      const audit::Use& first = *race.conflict->first;
      const audit::Use& second = *race.conflict->second;
      const Work& a = all[static_cast<std::size_t>(first.node)];
      const Work& b = all[static_cast<std::size_t>(second.node)];
      const audit::Use& mine = b.step == step_ ? second : first;
      audit::Finding finding{.kind = race.kind, .graph = graph};
      finding.node = pending.nodes[static_cast<std::size_t>(mine.node)].op;
      finding.argument = mine.access->argument;
      finding.rank = rank;
      if (mine.allocation) {
        finding.buffer = record.allocations[*mine.allocation].name;
        finding.generation = record.allocations[*mine.allocation].generation;
      }
      finding.why = a.node.op + " of step " + std::to_string(a.step) + " on " + a.node.stream +
                    mode_text(*first.access) + finding.buffer + ", " + b.node.op + " of step " +
                    std::to_string(b.step) + " on " + b.node.stream + mode_text(*second.access) +
                    "it, and no stream, event or launch orders them";
      finding.advice = race.kind == "missing_edge"
                           ? "let the launch's stream wait for an event after the copy"
                           : "launch both in one stream, order them by an event, or give each its "
                             "own memory";
      found.push_back(std::move(finding));
    }
  }
  return found;
}

}  // namespace dcp
