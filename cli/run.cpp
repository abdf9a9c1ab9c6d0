#include "cli/run.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <thread>

#include "cli/input_files.hpp"
#include "cli/json_file.hpp"
#include "cli/run_json.hpp"
#include "cli/run_text.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "harness/scenario_runner.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

constexpr std::uint64_t kDefaultSeed = 1;

// One file; its scenario is run under each of its strategies.
struct Job {
  std::string file;
  std::vector<ScenarioReport> reports;
  bool done = false;
};

std::vector<std::string> strategies_to_run(const Scenario& scenario, const Options& options) {
  auto names = options.strategies.empty() ? scenario.strategies : options.strategies;
  const auto& only = scenario.only.strategies;
  if (!only.empty()) {
    std::erase_if(names, [&](const std::string& name) {
      return std::find(only.begin(), only.end(), name) == only.end();
    });
  }
  return names;
}

std::vector<ScenarioReport> run_file(const std::string& file, const Options& options) {
  std::vector<ScenarioReport> reports;
  try {
    const Scenario scenario = read_scenario(file, options.overrides);
    require_supported(scenario);
    if (scenario.only.backend == "cuda") return reports;
    for (const std::string& name : strategies_to_run(scenario, options)) {
      reports.push_back(run_scenario(scenario, *find_strategy(name),
                                     {.seed = options.seed.value_or(kDefaultSeed)}));
    }
  } catch (const InputError& error) {
    ScenarioReport refused;
    refused.file = file;
    refused.strategy = "-";
    refused.status = Status::kError;
    refused.bad_input = error.what();
    reports.push_back(std::move(refused));
  }
  return reports;
}

std::string in_shell(const std::string& word) {
  if (word.find_first_of(" '\"$`\\*?[]{}()&;|<>~#!") == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string reproduce_command(const ScenarioReport& report, const Options& options) {
  std::string command = "./dcpsim run " + in_shell(report.file) + " --strategy " + report.strategy +
                        " --seed " + std::to_string(options.seed.value_or(kDefaultSeed));
  for (const Override& set : options.overrides) {
    command += " --set " + in_shell(set.key + "=" + set.value);
  }
  return command;
}

// Runs the jobs on `options.jobs` threads; calls `report` for each job in order, as it gets done.
template <class Report>
void run_jobs(std::vector<Job>& jobs, const Options& options, const Report& report) {
  std::mutex mutex;
  std::condition_variable progress;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      auto reports = run_file(jobs[i].file, options);
      const std::lock_guard lock(mutex);
      jobs[i].reports = std::move(reports);
      jobs[i].done = true;
      progress.notify_one();
    }
  };
  std::vector<std::jthread> workers;
  const auto num_workers =
      std::min<std::size_t>(static_cast<std::size_t>(options.jobs), jobs.size());
  for (std::size_t i = 0; i < num_workers; ++i) workers.emplace_back(work);
  for (Job& job : jobs) {
    std::unique_lock lock(mutex);
    progress.wait(lock, [&] { return job.done; });
    lock.unlock();
    report(job);
  }
}

struct Totals {
  int passed = 0;
  int failed = 0;
  int refused = 0;

  void add(Status status) {
    passed += status == Status::kPass;
    failed += status == Status::kFail;
    refused += status == Status::kError;
  }
  int exit_code() const { return refused > 0 ? 2 : failed > 0 ? 1 : 0; }
};

}  // namespace

int run_command(const Options& options) {
  std::vector<Job> jobs;
  for (std::string& file : input_files(options.paths, {".yaml", ".yml"}, "rejected")) {
    if (matches_filter(file, options.filter))
      jobs.push_back({.file = std::move(file), .reports = {}});
  }
  if (jobs.empty()) throw InputError({.file = "dcpsim"}, "no scenario matches the filter");

  std::cout << "dcpsim " DCPSIM_VERSION ", host backend, seed "
            << options.seed.value_or(kDefaultSeed) << '\n';
  const RunText style{.color = options.color, .steps = options.verbose || jobs.size() == 1};
  nlohmann::ordered_json json = report_head();
  json["tool"]["backend"] = "host";
  json["tool"]["comm"] = "simulated";
  json["tool"]["seed"] = options.seed.value_or(kDefaultSeed);
  json["scenarios"] = nlohmann::ordered_json::array();
  Totals totals;
  run_jobs(jobs, options, [&](const Job& job) {
    for (const ScenarioReport& report : job.reports) {
      print_scenario(std::cout, report, style, reproduce_command(report, options));
      json["scenarios"].push_back(scenario_json(report));
      totals.add(report.status);
    }
    std::cout.flush();
  });
  std::cout << totals.passed << " passed, " << totals.failed << " failed, " << totals.refused
            << " refused\n";
  if (!options.json_path.empty()) write_json_file(options.json_path, json);
  return totals.exit_code();
}

}  // namespace dcp
