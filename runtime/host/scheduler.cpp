#include "runtime/host/scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <string>
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
  while (num_pending_ > 0 || num_arrivals() > 0) step();
  if (policy_ != nullptr) policy_->drained();
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
  if (arrivals_ != nullptr) arrivals_->forget();
  if (policy_ != nullptr) policy_->drained();
  if (observer_ != nullptr) observer_->abandoned();
}

// One scheduling decision: start a runnable task, complete a waiting one whose time has come, or
// let something arrive.
void Scheduler::step() {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Task& task = entry(waiting_[i]).task;
    if (task.op->ready(task.params)) ready.push_back(i);
  }
  std::size_t choice = decide(ready);
  if (choice < runnable_.size()) return start(choice);
  choice -= runnable_.size();
  if (choice < ready.size()) return resume(ready[choice]);
  arrivals_->happen(choice - ready.size());
}

// A number that counts runnable tasks first, then those that are ready, then arrivals.
std::size_t Scheduler::decide(const std::vector<std::size_t>& ready) {
  const std::size_t num_choices = runnable_.size() + ready.size() + num_arrivals();
  if (num_choices == 0) report_deadlock();
  if (policy_ == nullptr) return draw(num_choices);
  std::vector<Choice> choices;
  for (const TaskId id : runnable_) choices.push_back({.task = &entry(id).task, .id = id});
  for (const std::size_t i : ready) {
    choices.push_back({&entry(waiting_[i]).task, waiting_[i], true});
  }
  for (std::size_t i = 0; i < num_arrivals(); ++i) choices.push_back({.arrival = arrivals_->at(i)});
  return policy_->choose(choices);
}

void Scheduler::resume(std::size_t waiting) {
  const TaskId id = waiting_[waiting];
  execute(id);
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(waiting));
  finish(id);
}

void Scheduler::start(std::size_t runnable) {
  const TaskId id = runnable_[runnable];
  const Task& task = entry(id).task;
  if (task.op != nullptr && task.op->arrive != nullptr) {
    task.op->arrive(task.params);
    waiting_.push_back(id);
    if (observer_ != nullptr) observer_->stepped(id, task, false);
  } else {
    execute(id);
  }
  runnable_[runnable] = runnable_.back();
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
  // A bounded wait ends by itself; one that is not bounded ends with the step.
  const auto bounded = std::find_if(waiting_.begin(), waiting_.end(), [&](TaskId id) {
    return entry(id).task.op->stuck_kind != "deadlock";
  });
  const std::string kind(bounded == waiting_.end() ? "deadlock"
                                                   : entry(*bounded).task.op->stuck_kind);
  std::string why = "nothing can run";
  for (const TaskId id : waiting_) {
    const Task& task = entry(id).task;
    why += "; rank " + std::to_string(task.rank) + " waits in " + task.where + ": " +
           task.op->waits_for(task.params);
  }
  throw Failure(kind, waiting_.size() == 1 ? entry(waiting_.front()).task.rank : -1, why);
}

}  // namespace dcp
