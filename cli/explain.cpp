#include "cli/explain.hpp"

#include <iostream>
#include <new>

#include "cli/command_line.hpp"
#include "cli/explain_json.hpp"
#include "cli/explain_text.hpp"
#include "cli/input_files.hpp"
#include "cli/json_file.hpp"
#include "cli/report_file.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"

namespace dcp {

namespace {

Explanation explained(const Scenario& scenario, const Options& options) {
  try {
    return explain(scenario, options.strategies.empty() ? scenario.strategies : options.strategies);
  } catch (const std::bad_alloc&) {
    throw InputError({scenario.file}, "this machine's memory does not hold the plan");
  }
}

}  // namespace

int explain_command(const Options& options) {
  if (!options.json_path.empty()) require_writable(options.json_path);
  nlohmann::ordered_json report = report_head();
  report["scenarios"] = nlohmann::ordered_json::array();
  bool is_first = true;
  for (const std::string& file : input_files(options.paths, {".yaml", ".yml"}, "rejected")) {
    if (!matches_filter(file, options.filter)) continue;
    const Scenario scenario = read_scenario(file, options.overrides);
    require_supported(scenario);
    const Explanation explanation = explained(scenario, options);
    if (!is_first) std::cout << '\n';
    is_first = false;
    print_explanation(std::cout, scenario, explanation, options.verbose);
    if (options.json_path.empty()) continue;
    report["scenarios"].push_back(explanation_json(scenario, explanation));
  }
  if (is_first) throw InputError({.file = "dcpsim"}, "no scenario matches the filter");
  if (!options.json_path.empty()) write_json_file(options.json_path, report);
  return 0;
}

}  // namespace dcp
