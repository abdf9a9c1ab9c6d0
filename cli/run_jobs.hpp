// Runs scenario files on several threads and reports them in order.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "harness/report.hpp"

namespace dcp {

// One file; its scenario is run under each of its strategies.
struct Job {
  enum class State : std::uint8_t { kWaiting, kRunning, kDone };

  std::string file;
  std::vector<ScenarioReport> reports = {};
  State state = State::kWaiting;
  std::exception_ptr broke = nullptr;  // what `run` threw
};

struct JobCalls {
  std::function<std::vector<ScenarioReport>(const std::string& file)> run;  // on any thread

  // On the caller's thread: `report` for each job, in order, as soon as it and all before it are
  // done; `progress` at first and while it waits.
  std::function<void(Job& job)> report;
  std::function<void(std::size_t num_done, const std::string& running_file)> progress;
};

// Returns when all are reported. Rethrows what a call threw; then later jobs are not begun.
void run_jobs(std::vector<Job>& jobs, int num_threads, const JobCalls& calls);

}  // namespace dcp
