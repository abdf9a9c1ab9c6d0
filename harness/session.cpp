#include "harness/session.hpp"

#include <algorithm>
#include <utility>

#include "harness/audit/agreement.hpp"
#include "harness/schedule_trace.hpp"
#include "harness/verbs/verbs.hpp"
#include "runtime/host/schedules/make_schedule.hpp"

namespace dcp {

Session::Session(const Scenario& scenario, const Strategy& strategy, const RunOptions& options)
    : scenario_(scenario),
      strategy_(strategy),
      schedule_(options.schedule.empty() ? nullptr : make_schedule(options.schedule, options.seed)),
      recorded_(schedule_ == nullptr ? nullptr : std::make_unique<RecordedSchedule>(*schedule_)),
      pending_work_(options.trace),
      world_(make_world({.backend = options.backend,
                         .world_size = scenario.world_size,
                         .num_communicators = scenario.graph.ubatches,
                         .seed = options.seed,
                         .schedule = recorded_.get(),
                         .observer = &pending_work_})),
      audit_(*world_),
      result_audit_(scenario),
      checker_(scenario, strategy, options) {}

std::string Session::schedule() const {
  return recorded_ == nullptr ? "" : text_of(recorded_->decisions());
}

Engine& Session::engine() {
  if (engine_ == nullptr) engine_ = std::make_unique<Engine>(scenario_, strategy_, *world_);
  return *engine_;
}

const Batch& Session::batch(const std::string& name) const {
  return *std::find_if(scenario_.batches.begin(), scenario_.batches.end(),
                       [&](const Batch& candidate) { return candidate.name == name; });
}

void Session::set_stub(verb::StubMode mode) {
  engine().set_stub(mode);
  stubbed_ = mode != verb::StubMode::kExact;
}

Disturbances& Session::disturbances() {
  if (disturbances_ == nullptr) {
    disturbances_ = std::make_unique<Disturbances>();
    world_->interfere(disturbances_.get());
  }
  return *disturbances_;
}

void Session::begin_step(const Step& step, int index) {
  pending_work_.begin_step(index);
  if (disturbances_ == nullptr) return;
  disturbances_->begin_step(step.name);
  const auto* together = std::get_if<verb::Together>(&step.verb);
  if (together == nullptr) return;
  for (const Step& each : together->steps) disturbances_->begin_step(each.name);
}

void Session::end_step(const Step& step, bool refused) {
  if (!has_engine() || !engine_->awaits_capture()) {
    awaits_capture_.reset();
  } else if (!awaits_capture_) {
    awaits_capture_ = step.place;
  }
  if (disturbances_ == nullptr || !enqueues_step(step.verb)) return;
  disturbances_->end_step(std::holds_alternative<verb::Capture>(step.verb), refused);
}

void Session::finish() {
  if (disturbances_ != nullptr) disturbances_->finish();
  awaited_sets_.finish();
  if (awaits_capture_) throw InputError(*awaits_capture_, "no capture follows this step");
  any_process(*world_, false);  // whoever is lost after the last step is found here
}

void Session::defer(CheckedStep step, StepReport& report, Settled settled) {
  deferred_.push_back({std::move(step), &report, std::move(settled)});
}

namespace {

void add_new(const audit::Findings& found, std::vector<audit::Finding>& hazards) {
  for (const audit::Finding& finding : found) {
    if (std::find(hazards.begin(), hazards.end(), finding) != hazards.end()) continue;
    hazards.push_back(finding);
  }
}

}  // namespace

void Session::audit(StepReport& report) {
  if (engine_ == nullptr) return;
  add_new(audit_.look(*engine_, report.index), report.hazards);
}

void Session::audit_launch(const std::string& graph, StepReport& report) {
  audit(report);
  add_new(audit_.of_graph(graph), report.hazards);
}

// A step that is alone is looked at once: the next launch of the graph has the same order.
void Session::watch(const StepRequest& request, const EngineStep* graph) {
  if (engine().is_idle()) pending_work_.forget();
  const int handle = graph == nullptr ? -1 : graph->ranks.front().graph.id;
  const bool is_first = launched_.insert({handle, request.stream}).second;
  const bool may_use_freed = graph == nullptr && audit_.binds_freed_memory();
  const bool is_watched = is_first || may_use_freed || !request.wait || !engine().is_idle() ||
                          engine().loads_elsewhere();
  constexpr std::int64_t kOfWaited = 2;  // a launch, and the one after it
  constexpr std::int64_t kAll = std::int64_t{1} << 32;
  const bool is_short = graph != nullptr && request.wait;
  pending_work_.watch(!is_watched ? 0 : is_short ? kOfWaited : kAll);
}

void Session::audit_pending(const std::string& graph, StepReport& report) {
  std::vector<int> others;
  add_new(pending_work_.look(audit_.ranks(), graph, others), report.hazards);
  for (const Deferred& each : deferred_) {
    each.report->is_tainted |=
        std::find(others.begin(), others.end(), each.report->index) != others.end();
  }
  pending_work_.watch(0);
  if (engine().is_idle()) pending_work_.forget();
}

bool Session::is_deferred(const StepReport& report) const {
  return std::any_of(deferred_.begin(), deferred_.end(),
                     [&](const Deferred& each) { return each.report == &report; });
}

// A hazard that is known already explains what the launch left, also one of the step that raced
// with it.
void Session::check_now(const CheckedStep& step, StepReport& report) {
  if (!any_process(*world_, report.is_tainted || !report.hazards.empty())) {
    report.hazards = result_audit_.look(*world_, engine(), audit_, step.run);
  }
  report.is_tainted |= any_process(*world_, !report.hazards.empty());
  checker_.check(engine(), step, report);
}

void Session::check(const CheckedStep& step, StepReport& report) {
  settle();
  check_now(step, report);
}

void Session::settle() {
  if (deferred_.empty() || !engine().is_idle()) return;
  for (Deferred& each : std::exchange(deferred_, {})) {
    check_now(each.step, *each.report);
    engine().release(each.step.run);
    each.settled();
  }
}

bool Session::give_up(const Failure& failure) {
  bool is_expected = false;
  for (Deferred& each : std::exchange(deferred_, {})) {
    const auto& wanted = each.step.expect.failures;
    const bool wants = std::any_of(wanted.begin(), wanted.end(), [&](const auto& finding) {
      return finding.kind == failure.kind();
    });
    if (wants) each.report->failures.push_back({failure.kind(), failure.rank(), failure.why()});
    is_expected |= wants;
    engine().release(each.step.run);
    each.settled();
  }
  return is_expected;
}

void Session::abandon(const Failure& failure) {
  for (Deferred& each : std::exchange(deferred_, {})) {
    each.report->failures.push_back({failure.kind(), failure.rank(), failure.why()});
    each.settled();
  }
}

}  // namespace dcp
