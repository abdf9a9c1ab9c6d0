#include "cli/run.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "cli/backend_text.hpp"
#include "cli/dump_folder.hpp"
#include "cli/input_files.hpp"
#include "cli/json_file.hpp"
#include "cli/progress_line.hpp"
#include "cli/report_file.hpp"
#include "cli/run_jobs.hpp"
#include "cli/run_json.hpp"
#include "cli/run_junit.hpp"
#include "cli/run_text.hpp"
#include "cli/run_trace.hpp"
#include "cli/shell_word.hpp"
#include "comm/process_group.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "harness/scenario_runner.hpp"
#include "harness/schedule_trace.hpp"
#include "runtime/host/schedules/make_schedule.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kDefaultSeed = 1;

// Steps that leave out, hold back or move what only a simulated device lets be touched.
bool needs_simulator(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    const auto* together = std::get_if<verb::Together>(&step.verb);
    if (together != nullptr && needs_simulator(together->steps)) return true;
    return step.verb_name == "skip" || step.verb_name == "stall" || step.verb_name == "remap" ||
           step.verb_name == "throw";
  });
}

// Under mpirun each rank is a process: only scenarios of that many ranks can run.
bool has_processes_for(const Scenario& scenario, const Options& options) {
  if (options.backend.comm != CommKind::kNccl) return true;
  const int size = ProcessGroup::get().size();
  return size == 1 || size == scenario.world_size;
}

std::vector<std::string> strategies_to_run(const Scenario& scenario, const Options& options) {
  const std::string& backend = scenario.only.backend;
  if (!backend.empty() && backend != name(options.backend.backend)) return {};
  if (!has_processes_for(scenario, options)) return {};
  if (options.backend.backend == Backend::kCuda && needs_simulator(scenario.steps)) return {};
  const bool has_peer_memory = options.backend.comm != CommKind::kNccl;
  if (!has_peer_memory && scenario.query == QueryMode::kDirect) return {};
  auto names = options.strategies.empty() ? scenario.strategies : options.strategies;
  std::erase_if(names, [&](const std::string& name) {
    return !has_peer_memory && find_strategy(name)->uses_peer_memory();
  });
  const auto& only = scenario.only.strategies;
  if (!only.empty()) {
    std::erase_if(names, [&](const std::string& name) {
      return std::find(only.begin(), only.end(), name) == only.end();
    });
  }
  return names;
}

// All files of one `run`, and what becomes of them.
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options), seed_(options.seed.value_or(kDefaultSeed)) {
    for (std::string& file : input_files(options.paths, {".yaml", ".yml"}, "rejected")) {
      if (matches_filter(file, options.filter)) jobs_.push_back({.file = std::move(file)});
    }
    if (jobs_.empty()) throw InputError({.file = "dcpsim"}, "no scenario matches the filter");
    prepare_reports();
  }

  int run() {
    std::cout << "dcpsim " DCPSIM_VERSION ", " << backend_text(options_.backend) << ", seed "
              << seed_ << schedule_text() << '\n';
    const RunText style{.color = options_.color, .steps = options_.verbose || jobs_.size() == 1};
    ProgressLine line(std::cerr, options_.progress, terminal_width());
    run_jobs(
        jobs_, options_.jobs,
        {.run = [this](const std::string& file) { return run_file(file); },
         .report =
             [&](Job& job) {
               line.erase();
               for (ScenarioReport& report : job.reports) take(std::move(report), style);
               std::cout.flush();
             },
         .progress = [&](std::size_t num_done,
                         const std::string& file) { line.show(num_done, jobs_.size(), file); }});
    line.erase();
    return finish();
  }

 private:
  std::string schedule_text() const {
    if (options_.schedule.empty()) return "";
    const bool is_name =
        std::ranges::find(kScheduleNames, options_.schedule) != kScheduleNames.end();
    return is_name ? ", schedule " + options_.schedule : ", a schedule as it was written";
  }

  // Everything about the options that can be wrong is said before anything runs.
  void prepare_reports() const {
    if (!options_.trace_path.empty()) require_one_run();
    if (!options_.dump_path.empty()) require_distinct_names();
    for (const auto* path : {&options_.json_path, &options_.junit_path, &options_.trace_path}) {
      if (!path->empty()) require_writable(*path);
    }
    if (!options_.dump_path.empty()) prepare_dump_folder(options_.dump_path);
  }

  // Clocks of several schedules have nothing to do with each other.
  void require_one_run() const {
    const std::string rule = "'--trace' shows one scenario under one strategy: ";
    if (jobs_.size() != 1) {
      throw InputError({.file = "dcpsim"},
                       rule + "these are " + std::to_string(jobs_.size()) + " scenarios");
    }
    const Scenario scenario = read_scenario(jobs_.front().file, options_.overrides);
    const std::size_t count = strategies_to_run(scenario, options_).size();
    if (count == 1) return;
    throw InputError({.file = "dcpsim"}, rule + jobs_.front().file + " runs under " +
                                             std::to_string(count) + "; '--strategy' chooses one");
  }

  // The folder of a dump is named after the file.
  void require_distinct_names() const {
    std::map<std::string, std::string> files;
    for (const Job& job : jobs_) {
      const auto [other, is_new] = files.emplace(fs::path(job.file).stem().string(), job.file);
      if (is_new) continue;
      throw InputError({.file = "dcpsim"}, "'--dump' needs file names that differ: " +
                                               other->second + " and " + job.file);
    }
  }

  std::string dump_folder(const std::string& file, const std::string& strategy, bool alone) const {
    if (options_.dump_path.empty() || alone) return options_.dump_path;
    return (fs::path(options_.dump_path) / fs::path(file).stem() / strategy).string();
  }

  std::vector<ScenarioReport> run_file(const std::string& file) {
    std::vector<ScenarioReport> reports;
    try {
      const Scenario scenario = read_scenario(file, options_.overrides);
      require_supported(scenario);
      const auto strategies = strategies_to_run(scenario, options_);
      const bool alone = jobs_.size() == 1 && strategies.size() == 1;
      for (const std::string& name : strategies) {
        const RunOptions run_options{.backend = options_.backend,
                                     .seed = seed_,
                                     .schedule = options_.schedule,
                                     .dump_folder = dump_folder(file, name, alone),
                                     .overrides = options_.overrides,
                                     .trace = options_.trace_path.empty() ? nullptr : &trace_};
        reports.push_back(run_scenario(scenario, *find_strategy(name), run_options));
      }
    } catch (const std::exception& error) {
      ScenarioReport refused;
      refused.file = file;
      refused.strategy = "-";
      end_with(refused, error);
      reports.push_back(std::move(refused));
    }
    return reports;
  }

  std::string reproduce_command(const ScenarioReport& report) const {
    std::string command = "./dcpsim run " + in_shell(report.file) + " --strategy " +
                          report.strategy + " --seed " + std::to_string(seed_);
    if (!options_.schedule.empty()) command += " --schedule " + options_.schedule;
    if (options_.backend.backend == Backend::kCuda) {
      command += " --backend cuda --comm " + std::string(name(options_.backend.comm));
    }
    for (const Override& set : options_.overrides) {
      command += " --set " + in_shell(set.key + "=" + set.value);
    }
    return command;
  }

  void take(ScenarioReport&& report, const RunText& style) {
    print_scenario(std::cout, report, style, reproduce_command(report));
    reports_.push_back(std::move(report));
  }

  int finish() const {
    const auto count = [this](Status status) {
      return std::count_if(reports_.begin(), reports_.end(),
                           [&](const ScenarioReport& report) { return report.status == status; });
    };
    const auto failed = count(Status::kFail);
    const auto refused = count(Status::kError);
    if (reports_.empty()) {
      throw InputError({.file = "dcpsim"},
                       "nothing ran: every scenario is for another backend, strategy or number of "
                       "processes");
    }
    std::cout << count(Status::kPass) << " passed, " << failed << " failed, " << refused
              << " refused\n";
    const auto num_left_out = std::count_if(jobs_.begin(), jobs_.end(),
                                            [](const Job& job) { return job.reports.empty(); });
    if (num_left_out > 0) {
      std::cout << "not run, being for another backend, strategy or number of processes: "
                << num_left_out << '\n';
    }
    if (!options_.json_path.empty())
      write_json_file(options_.json_path, run_json(reports_, options_.backend, seed_));
    if (!options_.junit_path.empty()) write_report_file(options_.junit_path, junit_xml(reports_));
    if (!options_.trace_path.empty()) {
      write_json_file(options_.trace_path, trace_json(trace_, reports_.front(), seed_));
    }
    return refused > 0 ? 2 : failed > 0 ? 1 : 0;
  }

  const Options& options_;
  std::uint64_t seed_;
  std::vector<Job> jobs_;
  std::vector<ScenarioReport> reports_;  // in order of the files
  ScheduleTrace trace_;                  // of the one run that '--trace' allows
};

}  // namespace

int run_command(const Options& options) { return Run(options).run(); }

}  // namespace dcp
