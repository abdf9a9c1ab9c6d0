#include "harness/scenario_runner.hpp"

#include <chrono>
#include <new>
#include <stdexcept>

#include "harness/step_runner.hpp"

namespace dcp {

std::vector<Step> default_steps(const Scenario& scenario) {
  std::vector<Step> steps;
  const Place place = scenario.batches.empty() ? Place{} : scenario.batches.front().place;
  Step capture;
  capture.place = place;
  capture.verb_name = "capture";
  capture.verb = verb::Capture{.all = true, .sizes = {}, .graph = {}, .rows = {}, .batch = {}};
  steps.push_back(capture);
  for (int round = 0; round < 2; ++round) {
    for (const Batch& batch : scenario.batches) {
      Step replay;
      replay.place = batch.place;
      replay.verb_name = "replay";
      replay.verb = verb::Replay{.batch = batch.name, .graph = {}, .times = 1, .stream = {}};
      steps.push_back(replay);
    }
  }
  return steps;
}

void end_with(ScenarioReport& report, const std::exception& error) {
  report.status = Status::kError;
  const auto* failure = dynamic_cast<const Failure*>(&error);
  if (failure != nullptr) {  // of the ranks' start or end: no step has it
    report.status = Status::kFail;
    report.bad_input =
        InputError({report.file}, "failure " + failure->kind() + ": " + failure->why()).what();
  } else if (dynamic_cast<const InputError*>(&error) != nullptr) {
    report.bad_input = error.what();
  } else if (dynamic_cast<const StepError*>(&error) != nullptr) {  // before the first step
    report.bad_input = InputError({report.file}, error.what()).what();
  } else if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
             dynamic_cast<const std::length_error*>(&error) != nullptr) {
    report.bad_input = InputError({report.file}, "this machine's memory does not hold it").what();
  } else {
    report.bad_input =
        InputError({report.file}, std::string("internal error: ") + error.what()).what();
  }
}

ScenarioReport run_scenario(const Scenario& scenario, const Strategy& strategy,
                            const RunOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  ScenarioReport report;
  report.file = scenario.file;
  report.strategy = strategy.name();
  const auto steps = scenario.steps.empty() ? default_steps(scenario) : scenario.steps;
  try {
    StepRunner runner(scenario, strategy, options);
    try {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const int index = static_cast<int>(i);
        runner.run(steps[i], index);
        if (runner.is_over()) break;
        if (options.record == nullptr || runner.last_report().hazards.empty()) continue;
        options.record->views.push_back({index, runner.record()});
      }
      if (!runner.is_over()) runner.finish();
    } catch (const std::exception& error) {
      end_with(report, error);
    }
    report.steps = runner.reports();
    report.coverage = runner.coverage();
    report.schedule = runner.schedule();
    if (options.record != nullptr) options.record->views.push_back({-1, runner.record()});
  } catch (const std::exception& error) {  // before the first step
    end_with(report, error);
  }
  for (const StepReport& step : report.steps) {
    const bool fell_short = step.status != Status::kPass && report.status == Status::kPass;
    if (fell_short) report.status = Status::kFail;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace dcp
