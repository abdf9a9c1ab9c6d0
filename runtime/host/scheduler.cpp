#include "runtime/host/scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/error.hpp"

namespace dcp {

TaskId Scheduler::add(Task task, std::span<const TaskId> dependencies) {
  const TaskId id = first_ + static_cast<TaskId>(entries_.size());
  Entry& added = entries_.emplace_back();
  added.task = std::move(task);
  for (const TaskId dependency : dependencies) {
    if (done(dependency)) continue;
    entry(dependency).successors.push_back(id);
    ++added.num_missing;
  }
  ++num_pending_;
  if (added.num_missing == 0) runnable_.push_back(id);
  if (observer_ != nullptr) observer_->added(id, added.task, dependencies);
  return id;
}

bool Scheduler::done(TaskId id) const {
  return id < first_ || entries_[static_cast<std::size_t>(id - first_)].done;
}

void Scheduler::run_all() {
  while (num_pending_ > 0) step();
  first_ += static_cast<TaskId>(entries_.size());
  entries_.clear();
}

void Scheduler::run_until(TaskId id) {
  while (!done(id)) step();
}

void Scheduler::abandon() {
  first_ += static_cast<TaskId>(entries_.size());
  entries_.clear();
  runnable_.clear();
  waiting_.clear();
  num_pending_ = 0;
  if (observer_ != nullptr) observer_->abandoned();
}

// One scheduling decision: start a runnable task, or complete a waiting one whose time has come.
void Scheduler::step() {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Task& task = entry(waiting_[i]).task;
    if (task.op->ready(task.params)) ready.push_back(i);
  }
  const std::size_t num_choices = runnable_.size() + ready.size();
  if (num_choices == 0) report_deadlock();

  const std::size_t choice = draw(num_choices);
  if (choice >= runnable_.size()) {
    const std::size_t i = ready[choice - runnable_.size()];
    const TaskId id = waiting_[i];
    execute(id);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(id);
    return;
  }

  const TaskId id = runnable_[choice];
  const Task& task = entry(id).task;
  if (task.op != nullptr && task.op->arrive != nullptr) {
    task.op->arrive(task.params);
    waiting_.push_back(id);
    if (observer_ != nullptr) observer_->stepped(id, task, false);
  } else {
    execute(id);
  }
  runnable_[choice] = runnable_.back();
  runnable_.pop_back();
  if (waiting_.empty() || waiting_.back() != id) finish(id);
}

void Scheduler::execute(TaskId id) {
  const Task& task = entry(id).task;
  if (task.op == nullptr) return;
  try {
    task.op->run(task.params);
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), task.rank,
                  std::string(task.op->name) + " on " + task.where + ": " + failure.why());
  }
}

void Scheduler::finish(TaskId id) {
  Entry& finished = entry(id);
  if (observer_ != nullptr) observer_->stepped(id, finished.task, true);
  finished.done = true;
  --num_pending_;
  for (const TaskId successor : finished.successors) {
    if (--entry(successor).num_missing == 0) runnable_.push_back(successor);
  }
  finished.successors.clear();
  finished.task.owned.clear();
}

void Scheduler::report_deadlock() {
  std::string why = "nothing can run";
  for (const TaskId id : waiting_) {
    const Task& task = entry(id).task;
    why += "; rank " + std::to_string(task.rank) + " waits in " + task.where + ": " +
           task.op->waits_for(task.params);
  }
  throw Failure("deadlock", waiting_.size() == 1 ? entry(waiting_.front()).task.rank : -1, why);
}

}  // namespace dcp
