// How ops become tasks: what a scenario does to them, and what memory that was given back does.
#include "runtime/hold_op.hpp"
#include "runtime/host/host_runtime.hpp"
#include "runtime/poison_op.hpp"

namespace dcp {

namespace {

template <class O>
Task owned_task(const typename O::Params& params, int rank, std::string where) {
  const auto bytes = std::as_bytes(std::span(&params, 1));
  Task task{.op = &kOpInfo<O>,
            .params = nullptr,
            .owned = {bytes.begin(), bytes.end()},
            .rank = rank,
            .where = std::move(where)};
  task.params = task.owned.data();
  return task;
}

}  // namespace

Verdict HostRuntime::judge(const OpInfo& op, const void* params, bool is_captured) const {
  if (interference_ == nullptr) return {};
  return interference_->judge({.rank = rank_,
                               .name = op.label == nullptr ? op.name : op.label(params),
                               .is_captured = is_captured});
}

TaskId HostRuntime::add_poison(const HostMemory::Range& range,
                               std::span<const TaskId> dependencies) {
  const PoisonFreed::Params params{range.data, range.size_bytes};
  return scheduler_.add(owned_task<PoisonFreed>(params, rank_, "free"), dependencies);
}

// Memory that was given back belongs to someone else: an op that still uses it does not find there
// what it or anyone before it wrote.
TaskId HostRuntime::add(OpTask added) {
  const OpInfo& op = *added.task.op;
  const Verdict verdict = judge(op, added.task.params, false);
  std::vector<Access> accesses;
  if (added.may_use_freed) op.accesses(added.task.params, accesses);
  std::vector<TaskId> before = std::move(added.dependencies);
  for (const Access& access : accesses) {
    if (access.mode == Mode::kWrite) continue;
    for (const auto& part : memory_.freed_parts(access.data, access.size_bytes)) {
      before = {add_poison(part, before)};
    }
  }
  if (verdict.kind == Verdict::kHold) {
    const HoldOp::Params hold{interference_, verdict.hold};
    before = {scheduler_.add(owned_task<HoldOp>(hold, rank_, added.task.where), before)};
  }
  if (verdict.kind == Verdict::kSkip) added.task.op = nullptr;
  TaskId last = scheduler_.add(std::move(added.task), before);
  for (const Access& access : accesses) {
    if (access.mode == Mode::kRead) continue;
    for (const auto& part : memory_.freed_parts(access.data, access.size_bytes)) {
      last = add_poison(part, std::span(&last, 1));
    }
  }
  return last;
}

void HostRuntime::find_freed_users(Executable& executable) const {
  const auto& nodes = executable.record.nodes;
  if (executable.freed_known == memory_.num_freed() &&
      executable.uses_freed.size() == nodes.size()) {
    return;
  }
  executable.uses_freed.assign(nodes.size(), false);
  executable.freed_known = memory_.num_freed();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<Access> accesses;
    nodes[i].op->accesses(nodes[i].params.data(), accesses);
    for (const Access& access : accesses) {
      if (memory_.freed_parts(access.data, access.size_bytes).empty()) continue;
      executable.uses_freed[i] = true;
    }
  }
}

// A pool goes with the last graph that was captured from it.
void HostRuntime::give_back_pool(const GraphRecord& record) {
  for (const GraphRecord* live : live_graphs()) {
    if (live->pool == record.pool) return;
  }
  memory_.destroy_pool(record.pool);
}

}  // namespace dcp
