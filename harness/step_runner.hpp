// Runs the steps of one scenario under one strategy and holds each to what it expects.
#pragma once

#include <deque>
#include <vector>

#include "harness/schedule_trace.hpp"
#include "harness/session.hpp"
#include "runtime/api_error.hpp"

namespace dcp {

class StepRunner {
 public:
  // Throws InputError where the folder for dumps cannot be created.
  StepRunner(const Scenario& scenario, const Strategy& strategy, const RunOptions& options);

  // Throws InputError where a step is refused for what the scenario says and does not expect it.
  // The report of a step that is not waited for is complete when something has drained.
  void run(const Step& step, int index);

  // A rank was lost for good: no further step can run.
  bool is_over() const { return session_.is_over(); }

  // Drains what is still pending. Throws InputError as run().
  void finish();

  Coverage coverage();
  std::string schedule() const { return session_.schedule(); }
  const std::vector<audit::RankRecord>& record() const { return session_.record(); }
  const StepReport& last_report() const { return reports_.back(); }
  std::vector<StepReport> reports() const { return {reports_.begin(), reports_.end()}; }

 private:
  void perform(const Step& step, const Expect& expect, StepReport& report);
  void end_with(const Failure& failure, const Step& step, StepReport& report);
  void hold_to_findings(const Step& step, const Expect& expect, StepReport& report) const;

  const Scenario& scenario_;
  const Strategy& strategy_;
  ScheduleTrace* trace_;
  std::deque<StepReport> reports_;  // references stay valid
  Session session_;
};

}  // namespace dcp
