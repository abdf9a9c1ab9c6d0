#include "cli/audit.hpp"

#include <algorithm>
#include <iostream>

#include "audit/audit.hpp"
#include "cli/audit_dot.hpp"
#include "cli/audit_html.hpp"
#include "cli/audit_json.hpp"
#include "cli/audit_text.hpp"
#include "cli/command_line.hpp"
#include "cli/input_files.hpp"
#include "cli/json_file.hpp"
#include "cli/report_file.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "harness/graph_file.hpp"
#include "harness/scenario_runner.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

constexpr std::uint64_t kDefaultSeed = 1;

bool allows(const Scenario& scenario, const Options& options, const std::string& strategy) {
  const auto& only = scenario.only;
  const bool has_backend = only.backend.empty() || only.backend == name(options.backend.backend);
  return has_backend &&
         (only.strategies.empty() || std::find(only.strategies.begin(), only.strategies.end(),
                                               strategy) != only.strategies.end());
}

Audited audit_scenario(const Scenario& scenario, const std::string& strategy,
                       const Options& options) {
  Audited audited{.file = scenario.file, .strategy = strategy, .record = {}, .findings = {}};
  const ScenarioReport report = run_scenario(scenario, *find_strategy(strategy),
                                             {.backend = options.backend,
                                              .seed = options.seed.value_or(kDefaultSeed),
                                              .schedule = options.schedule,
                                              .overrides = options.overrides,
                                              .record = &audited.record});
  for (const StepReport& step : report.steps) {
    for (const audit::Finding& finding : step.hazards) {
      add_finding(audited.findings, step.index, finding);
    }
  }
  audited.steps = report.steps;
  audited.bad_input = report.bad_input;
  return audited;
}

struct AuditJob {
  Scenario scenario;
  std::vector<std::string> strategies;
};

// Read before any of them runs.
std::vector<AuditJob> audit_jobs(const Options& options) {
  std::vector<AuditJob> jobs;
  for (const std::string& file : input_files(options.paths, {".yaml", ".yml"}, "rejected")) {
    if (!matches_filter(file, options.filter)) continue;
    AuditJob job{.scenario = read_scenario(file, options.overrides),
                 .strategies = options.strategies};
    require_supported(job.scenario);
    if (job.strategies.empty()) job.strategies = job.scenario.strategies;
    std::erase_if(job.strategies, [&](const std::string& strategy) {
      return !allows(job.scenario, options, strategy);
    });
    jobs.push_back(std::move(job));
  }
  return jobs;
}

void require_right_number(std::size_t num_audits, const Options& options) {
  if (num_audits == 0) throw InputError({.file = "dcpsim"}, "no scenario is left to audit");
  if (num_audits == 1 || (options.dot_path.empty() && options.html_path.empty())) return;
  throw InputError({.file = "dcpsim"},
                   "'--dot' and '--html' show one scenario under one strategy, these are " +
                       std::to_string(num_audits));
}

std::vector<Audited> audit_scenarios(const Options& options) {
  const std::vector<AuditJob> jobs = audit_jobs(options);
  std::size_t num_audits = 0;
  for (const AuditJob& job : jobs) num_audits += job.strategies.size();
  require_right_number(num_audits, options);
  std::vector<Audited> all;
  for (const AuditJob& job : jobs) {
    for (const std::string& strategy : job.strategies) {
      all.push_back(audit_scenario(job.scenario, strategy, options));
    }
  }
  return all;
}

// A record has been captured already: there is nothing left to choose.
void require_no_choice(const Options& options) {
  const bool chooses = !options.strategies.empty() || !options.overrides.empty() ||
                       !options.filter.empty() || options.seed || !options.schedule.empty();
  if (!chooses) return;
  throw InputError(
      {.file = "dcpsim"},
      "'--strategy', '--set', '--seed', '--schedule' and '--filter' do not apply to '--graph'");
}

Audited audit_graph_file(const std::string& path) {
  GraphFile file = read_graph_file(path);
  Audited audited{.file = path, .strategy = "", .record = {}, .findings = {}};
  for (const audit::Finding& finding : audit::audit(file.record)) {
    add_finding(audited.findings, -1, finding);
  }
  audited.record.views.push_back({-1, std::move(file.record.ranks)});
  if (file.num_undeclared_nodes > 0) {
    const bool is_one = file.num_undeclared_nodes == 1;
    std::cout << file.num_undeclared_nodes << (is_one ? " node declares" : " nodes declare")
              << " no accesses: all that " << (is_one ? "its" : "their")
              << " arguments point to is taken as read and written\n";
  }
  return audited;
}

void write_pages(const Audited& audited, const Options& options) {
  if (!options.dot_path.empty()) write_report_file(options.dot_path, audit_dot(audited));
  if (!options.html_path.empty()) write_report_file(options.html_path, audit_html(audited));
}

}  // namespace

int audit_command(const Options& options) {
  if (!options.graph_path.empty()) require_no_choice(options);
  for (const auto* path : {&options.json_path, &options.dot_path, &options.html_path}) {
    if (!path->empty()) require_writable(*path);
  }
  const std::vector<Audited> all = options.graph_path.empty()
                                       ? audit_scenarios(options)
                                       : std::vector{audit_graph_file(options.graph_path)};
  nlohmann::ordered_json report = report_head();
  report["audits"] = nlohmann::ordered_json::array();
  bool is_clean = true;
  bool is_bad = false;
  for (const Audited& audited : all) {
    if (&audited != &all.front()) std::cout << '\n';
    print_audit(std::cout, audited, options.verbose);
    report["audits"].push_back(audited_json(audited));
    is_clean &= audited.findings.empty();
    is_bad |= !audited.bad_input.empty();
  }
  write_pages(all.front(), options);
  if (!options.json_path.empty()) write_json_file(options.json_path, report);
  return is_bad ? 2 : is_clean ? 0 : 1;
}

}  // namespace dcp
