// Runs the pending work of all ranks, one op at a time, in an order that a seed decides: among
// everything that no edge orders, the next op is drawn. Same seed, same order, same bits.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "runtime/host/schedule_policy.hpp"

namespace dcp {

// Watches what the scheduler does. One call of stepped() is one scheduling decision.
class ScheduleObserver {
 public:
  virtual ~ScheduleObserver() = default;

  // The task was enqueued, after those that it depends on.
  virtual void added(TaskId /*id*/, const Task& /*task*/,
                     std::span<const TaskId> /*dependencies*/) {}

  // The task is done or, where it has to wait for others, has arrived and waits.
  virtual void stepped(TaskId id, const Task& task, bool done) = 0;

  // The pending tasks were forgotten: those that wait will not be done.
  virtual void abandoned() = 0;
};

class Scheduler {
 public:
  explicit Scheduler(std::uint64_t seed) : random_(seed) {}

  // Adds a task that may run once all `dependencies` are done.
  TaskId add(Task task, std::span<const TaskId> dependencies);

  bool done(TaskId id) const;
  bool drained(TaskId id) const { return id < first_; }  // done, and run_all() came after it
  bool idle() const { return num_pending_ == 0; }

  // Runs until nothing is pending. Throws Failure: `deadlock`, or what the ops that wait say, if
  // nothing may run although tasks are pending, or whatever an op reported. Then the pending tasks
  // are still there: see abandon().
  void run_all();

  // Runs until `id` is done; otherwise as run_all().
  void run_until(TaskId id);

  // Forgets all pending tasks, as after a failure.
  void abandon();

  // From here on; null: nobody. The observer must outlive the scheduler's work.
  void observe(ScheduleObserver* observer) { observer_ = observer; }

  // Who decides from here on; null: a uniform draw by the seed.
  void follow(SchedulePolicy* policy) { policy_ = policy; }

  // What may happen beside the tasks. run_all() ends when none of it is left.
  void let_arrive(Arrivals* arrivals) { arrivals_ = arrivals; }

 private:
  struct Entry {
    Task task;
    int num_missing = 0;  // dependencies that are not done
    std::vector<TaskId> successors;
    bool done = false;
  };

  Entry& entry(TaskId id) { return entries_[static_cast<std::size_t>(id - first_)]; }
  std::size_t num_arrivals() const { return arrivals_ == nullptr ? 0 : arrivals_->count(); }
  void step();
  std::size_t decide(const std::vector<std::size_t>& ready);
  void resume(std::size_t waiting);
  void start(std::size_t runnable);
  void execute(TaskId id);
  void finish(TaskId id);
  std::size_t draw(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  [[noreturn]] void report_deadlock();

  std::mt19937_64 random_;
  ScheduleObserver* observer_ = nullptr;
  SchedulePolicy* policy_ = nullptr;
  Arrivals* arrivals_ = nullptr;
  std::deque<Entry> entries_;  // tasks first_, first_ + 1, ...
  TaskId first_ = 0;
  std::int64_t num_pending_ = 0;
  std::vector<TaskId> runnable_;  // all dependencies done, not started
  std::vector<TaskId> waiting_;   // blocking ops that have arrived
};

}  // namespace dcp
