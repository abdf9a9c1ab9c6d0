// One scenario under one strategy, in progress: what its steps act on.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "engine/engine.hpp"
#include "harness/audit/pending_work.hpp"
#include "harness/audit/result_audit.hpp"
#include "harness/audit/run_audit.hpp"
#include "harness/step_checker.hpp"
#include "harness/verbs/awaited_sets.hpp"
#include "harness/verbs/disturbances.hpp"
#include "runtime/host/schedules/written_schedule.hpp"

namespace dcp {

class Session {
 public:
  // Throws InputError where the folder for dumps cannot be created.
  Session(const Scenario& scenario, const Strategy& strategy, const RunOptions& options);

  const Scenario& scenario() const { return scenario_; }
  World& world() { return *world_; }
  Engine& engine();  // made when the first step needs it
  bool has_engine() const { return engine_ != nullptr; }
  const Batch& batch(const std::string& name) const;

  // From here on.
  void set_stub(verb::StubMode mode);
  bool is_stubbed() const { return stubbed_; }

  // The decisions so far; empty where the options name no schedule.
  std::string schedule() const;

  // Asked about every operation from the first call on.
  Disturbances& disturbances();
  AwaitedSets& awaited_sets() { return awaited_sets_; }
  void begin_step(const Step& step, int index);
  // InputError as Disturbances::end_step.
  void end_step(const Step& step, bool refused);

  // No step follows. InputError as Disturbances::finish and AwaitedSets::finish, and for what waits
  // for a capture.
  void finish();

  // A run that nobody waits for. It is checked when something drains; then `settled` is told. The
  // report must outlive this object.
  using Settled = std::function<void()>;
  void defer(CheckedStep step, StepReport& report, Settled settled);

  bool has_deferred() const { return !deferred_.empty(); }
  bool is_deferred(const StepReport& report) const;

  // Adds to the report the hazards that are new, and those of the graph that the step launches.
  void audit(StepReport& report);
  const std::vector<audit::RankRecord>& record() const { return audit_.ranks(); }
  void audit_launch(const std::string& graph, StepReport& report);

  // Takes note of what the step will enqueue where that may stay pending with others; then adds the
  // hazards among all that was pending. `graph`: that it launches, null for an eager step.
  void watch(const StepRequest& request, const EngineStep* graph);
  void audit_pending(const std::string& graph, StepReport& report);
  std::size_t num_noted() const { return pending_work_.num_noted(); }

  // Checks a run that was waited for, after those that it drained too.
  void check(const CheckedStep& step, StepReport& report);

  // Checks what was deferred, if nothing is pending any more.
  void settle();

  // After a failure, with which everything pending was given up. True: steps that were deferred
  // expect it, and have it in their reports.
  bool give_up(const Failure& failure);

  // Whether a rank is gone for good: nothing can be run any more.
  bool is_over() const { return world_->is_over(); }

  // Then: the failure is that of all steps that were deferred too.
  void abandon(const Failure& failure);

 private:
  void check_now(const CheckedStep& step, StepReport& report);

  struct Deferred {
    CheckedStep step;
    StepReport* report;
    Settled settled;
  };

  const Scenario& scenario_;
  const Strategy& strategy_;
  std::unique_ptr<Disturbances> disturbances_;  // outlives what is held back in the world
  std::unique_ptr<SchedulePolicy> schedule_;
  std::unique_ptr<RecordedSchedule> recorded_;  // of schedule_; null: the seed decides
  PendingWork pending_work_;
  std::set<std::pair<int, std::string>> launched_;  // graph and stream; -1: eager
  std::unique_ptr<World> world_;
  std::unique_ptr<Engine> engine_;
  RunAudit audit_;
  ResultAudit result_audit_;
  StepChecker checker_;
  std::vector<Deferred> deferred_;
  std::optional<Place> awaits_capture_;  // the step whose work the next capture takes up
  AwaitedSets awaited_sets_;
  bool stubbed_ = false;
};

}  // namespace dcp
