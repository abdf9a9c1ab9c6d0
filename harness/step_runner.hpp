// One scenario, one strategy, in progress: the state that its steps share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "engine/engine.hpp"
#include "harness/expectation.hpp"
#include "harness/scenario_runner.hpp"
#include "harness/schedule_trace.hpp"
#include "harness/step_dump.hpp"

namespace dcp {

class StepRunner {
 public:
  // Throws InputError where the folder for dumps cannot be created.
  StepRunner(const Scenario& scenario, const Strategy& strategy, const RunOptions& options);

  // Throws InputError where a step is refused for what the scenario says and does not expect it.
  StepReport run(const Step& step, int index);

 private:
  Engine& engine();  // made when the first step needs it
  const Batch& batch(const std::string& name) const;
  void perform(const Step& step, const Expect& expect, StepReport& report);
  void capture(const verb::Capture& capture, StepReport& report);
  void examine(const StepRun& run, const Batch& batch, const Expect& expect, StepReport& report);
  void check_layers(const StepRun& run, const Batch& batch, StepReport& report,
                    LayerResult& last_layer);
  StepOutput read_output(const StepRun& run) const;
  void hold_to_outputs(const StepRun& run, const StepOutput& output, const LayerResult& right,
                       const Expect& expect, StepReport& report);
  void hold_to_findings(const Step& step, const Expect& expect, StepReport& report) const;
  void describe_ranks(const StepRun& run, StepReport& report) const;
  void describe_graph(const StepRun& run, StepReport& report) const;

  const Scenario& scenario_;
  const Strategy& strategy_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Engine> engine_;
  ScheduleTrace* trace_;
  std::optional<StepDump> dump_;
  bool stubbed_ = false;                       // the attention stage is not exact
  std::map<std::string, StepOutput> outputs_;  // by step name and by index, for same_bits_as
  std::string last_output_;                    // key of the step in progress
};

}  // namespace dcp
