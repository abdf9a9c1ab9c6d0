#include "cli/run_json.hpp"

#include "cli/comparison_json.hpp"
#include "cli/json_file.hpp"

namespace dcp {

namespace {

using Json = nlohmann::ordered_json;

Json check_json(const LevelReport& level) {
  Json json = {{"level", level.level}};
  json.update(comparison_json(level.comparison));
  return json;
}

Json step_json(const StepReport& step) {
  Json json = {{"index", step.index},
               {"line", step.place.line},
               {"column", step.place.column},
               {"name", step.name},
               {"verb", step.verb},
               {"status", name(step.status)},
               {"graph", step.graph},
               {"rows", step.rows},
               {"eager_rows", step.eager_rows},
               {"fallback_rows", step.fallback_rows},
               {"egress_bytes", step.egress_bytes},
               {"op_nodes", step.op_nodes},
               {"kernel_nodes", step.kernel_nodes ? Json(*step.kernel_nodes) : Json(nullptr)},
               {"launches", step.launches},
               {"seconds", step.seconds}};
  json["checks"] = Json::array();
  for (const LevelReport& check : step.checks) json["checks"].push_back(check_json(check));
  json["hazards"] = Json::array();
  for (const audit::Finding& hazard : step.hazards) json["hazards"].push_back(hazard_json(hazard));
  json["failures"] = Json::array();
  for (const FailureReport& failure : step.failures) {
    json["failures"].push_back(
        {{"kind", failure.kind}, {"rank", failure.rank}, {"why", failure.why}});
  }
  json["error"] = nullptr;
  if (step.error) json["error"] = {{"kind", step.error->kind}, {"why", step.error->why}};
  json["ranks"] = Json::array();
  for (const RankReport& rank : step.ranks) {
    json["ranks"].push_back({{"seq_lens", rank.seq_lens}, {"empty_rows", rank.empty_rows}});
  }
  json["problems"] = step.problems;
  return json;
}

Json coverage_json(const Coverage& coverage) {
  Json json = {{"graph_sizes", coverage.graph_sizes}, {"max_num_tokens", coverage.max_num_tokens}};
  json["uncovered"] = nullptr;
  if (const auto first = coverage.first_uncovered()) {
    json["uncovered"] = {*first, coverage.max_num_tokens};
  }
  json["ran_eagerly"] = Json::array();
  for (const auto& [rows, steps] : coverage.ran_eagerly) {
    json["ran_eagerly"].push_back({{"rows", rows}, {"steps", steps}});
  }
  return json;
}

Json scenario_json(const ScenarioReport& report) {
  Json json = {{"file", report.file},
               {"strategy", report.strategy},
               {"status", name(report.status)},
               {"seconds", report.seconds},
               {"schedule", report.schedule.empty() ? Json(nullptr) : Json(report.schedule)},
               {"error", report.bad_input.empty() ? Json(nullptr) : Json(report.bad_input)}};
  json["steps"] = Json::array();
  for (const StepReport& step : report.steps) json["steps"].push_back(step_json(step));
  json["coverage"] = coverage_json(report.coverage);
  return json;
}

}  // namespace

nlohmann::ordered_json hazard_json(const audit::Finding& hazard) {
  return {{"kind", hazard.kind},
          {"graph", hazard.graph},
          {"node", hazard.node},
          {"node_index", hazard.node_index},
          {"argument", hazard.argument},
          {"buffer", hazard.buffer},
          {"generation", hazard.generation},
          {"rank", hazard.rank},
          {"ubatch", hazard.ubatch},
          {"why", hazard.why},
          {"advice", hazard.advice}};
}

nlohmann::ordered_json run_json(std::span<const ScenarioReport> reports,
                                const BackendChoice& backend, std::uint64_t seed) {
  Json json = report_head(backend);
  json["tool"]["seed"] = seed;
  json["scenarios"] = Json::array();
  for (const ScenarioReport& report : reports) json["scenarios"].push_back(scenario_json(report));
  return json;
}

}  // namespace dcp
