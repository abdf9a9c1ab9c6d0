// Runs the steps of a scenario on an engine, checks every computing step against the reference, and
// holds each step to what it expects.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "audit/record.hpp"
#include "comm/make_world.hpp"
#include "core/scenario_reader.hpp"
#include "harness/report.hpp"
#include "strategies/strategy.hpp"

namespace dcp {

class ScheduleTrace;

// Graphs and memory of all ranks, as the audit knew them.
struct RunRecord {
  struct View {
    int step;  // right after it, because it has hazards; -1: at the end
    std::vector<audit::RankRecord> ranks;
  };
  std::vector<View> views;
};

struct RunOptions {
  BackendChoice backend = {};
  std::uint64_t seed = 0;                // of the schedule
  std::string schedule = {};             // as make_schedule; empty: uniform, and not written down
  std::string dump_folder = {};          // for every tensor of every computing step; empty: none
  std::vector<Override> overrides = {};  // that the scenario was read with, for the dump
  ScheduleTrace* trace = nullptr;        // told of everything that runs; null: nobody is

  RunRecord* record = nullptr;  // filled with what the audit saw; null: nobody asks
};

// Steps that run where a scenario names none: capture every size, then replay every batch, in
// order, and all of it once more.
std::vector<Step> default_steps(const Scenario& scenario);

// Ends the report with Status::kError and one line that names its file, whatever was thrown.
void end_with(ScenarioReport& report, const std::exception& error);

// Never throws: what ends the run early ends its report.
ScenarioReport run_scenario(const Scenario& scenario, const Strategy& strategy,
                            const RunOptions& options);

}  // namespace dcp
