#include "harness/session.hpp"

#include <algorithm>
#include <utility>

#include "harness/schedule_trace.hpp"
#include "harness/verbs/verbs.hpp"

namespace dcp {

Session::Session(const Scenario& scenario, const Strategy& strategy, const RunOptions& options)
    : scenario_(scenario),
      strategy_(strategy),
      world_(make_world({.backend = options.backend,
                         .world_size = scenario.world_size,
                         .num_communicators = scenario.graph.ubatches,
                         .seed = options.seed,
                         .observer = options.trace})),
      audit_(*world_),
      checker_(scenario, strategy, options) {}

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

void Session::begin_step(const Step& step) {
  if (disturbances_ == nullptr) return;
  disturbances_->begin_step(step.name);
  const auto* together = std::get_if<verb::Together>(&step.verb);
  if (together == nullptr) return;
  for (const Step& each : together->steps) disturbances_->begin_step(each.name);
}

void Session::end_step(const Step& step, bool refused) {
  if (disturbances_ == nullptr || !enqueues_step(step.verb)) return;
  disturbances_->end_step(std::holds_alternative<verb::Capture>(step.verb), refused);
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

bool Session::is_deferred(const StepReport& report) const {
  return std::any_of(deferred_.begin(), deferred_.end(),
                     [&](const Deferred& each) { return each.report == &report; });
}

void Session::check(const CheckedStep& step, StepReport& report) {
  settle();
  checker_.check(engine(), step, report);
}

void Session::settle() {
  if (deferred_.empty() || !engine().is_idle()) return;
  for (Deferred& each : std::exchange(deferred_, {})) {
    checker_.check(engine(), each.step, *each.report);
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

}  // namespace dcp
