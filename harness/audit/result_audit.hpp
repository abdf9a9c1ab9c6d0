// Hazards that show in what a launch left: metadata that is not the batch's, and memory that still
// holds the poison of before it. Only for a run that is drained and whose buffers nobody used
// since.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/audit/run_audit.hpp"

namespace dcp {

class ResultAudit {
 public:
  explicit ResultAudit(const Scenario& scenario) : scenario_(scenario) {}

  audit::Findings look(World& world, Engine& engine, const RunAudit& graphs, const StepRun& run);

 private:
  struct RankResult {
    audit::Findings found;
    std::map<std::string, std::vector<std::int64_t>> metadata;  // that this step should have had
  };

  void check_metadata(const Engine& engine, const StepRun& run, Rank& rank, RankResult& result);
  void check_outputs(const StepRun& run, Rank& rank, audit::Findings& found) const;
  void check_partials(const StepRun& run, Rank& rank, audit::Findings& found) const;
  void check_reads(const RunAudit& graphs, const StepRun& run, Rank& rank,
                   audit::Findings& found) const;

  void check_values(Engine& engine, const StepRun& run, audit::Findings& found) const;

  const Scenario& scenario_;
  std::vector<std::map<std::string, std::vector<std::int64_t>>> before_;  // by rank, name, ubatch
};

}  // namespace dcp
