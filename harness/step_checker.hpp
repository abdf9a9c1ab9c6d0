// What a computing step left, held to the reference and to what the step expects.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "harness/expectation.hpp"
#include "harness/scenario_runner.hpp"
#include "harness/step_dump.hpp"

namespace dcp {

// A step that ran, and what it is held to.
struct CheckedStep {
  StepRun run;
  const Batch& batch;
  Expect expect;
  std::vector<std::string> names;  // under which same_bits_as finds it: its index, its name
  bool stubbed;                    // the attention stage was not exact
};

class StepChecker {
 public:
  // Throws InputError where the folder for dumps cannot be created.
  StepChecker(const Scenario& scenario, const Strategy& strategy, const RunOptions& options);

  // Only once the run is drained. What falls short goes into the report's problems; a mismatch that
  // the step expects is one of its failures.
  void check(const Engine& engine, const CheckedStep& step, StepReport& report);

 private:
  void count_bytes(const StepRun& run, StepReport& report) const;
  const Strategy& effective_strategy(const StepRun& run) const;
  void check_layers(const Engine& engine, const CheckedStep& step, StepReport& report,
                    LayerResult& last_layer);
  void check_kv_gather(const Engine& engine, const CheckedStep& step, StepReport& report) const;
  StepOutput read_output(const Engine& engine, const StepRun& run) const;
  void hold_to_outputs(const CheckedStep& step, const StepOutput& output, const LayerResult& right,
                       StepReport& report) const;
  void hold_to_bits(const CheckedStep& step, const StepOutput& output, StepReport& report) const;
  void describe_ranks(const StepRun& run, StepReport& report) const;

  const Scenario& scenario_;
  const Strategy& strategy_;
  std::optional<StepDump> dump_;
  std::map<std::string, StepOutput> outputs_;  // by step name and by index, for same_bits_as
};

}  // namespace dcp
