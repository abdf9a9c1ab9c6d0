#include "cli/run_json.hpp"

#include <cmath>

namespace dcp {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinities and no NaN: they are strings.
Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json check_json(const LevelReport& level) {
  const Comparison& c = level.comparison;
  Json json = {{"level", level.level},
               {"max_abs_error", number_json(c.max_abs_error)},
               {"max_error_over_tolerance", number_json(c.max_error_over_tolerance)},
               {"first_bad", nullptr}};
  if (c.first_bad) {
    const ElementPlace& at = c.first_bad->at;
    json["first_bad"] = {{"rank", at.rank},
                         {"layer", at.layer},
                         {"row", at.row},
                         {"head", at.head},
                         {"element", at.element < 0 ? Json("lse") : Json(at.element)},
                         {"got", number_json(c.first_bad->got)},
                         {"want", number_json(c.first_bad->want)}};
  }
  return json;
}

Json step_json(const StepReport& step) {
  Json json = {{"index", step.index},
               {"name", step.name},
               {"verb", step.verb},
               {"status", name(step.status)},
               {"graph", step.graph},
               {"rows", step.rows},
               {"eager_rows", step.eager_rows},
               {"egress_bytes", step.egress_bytes},
               {"seconds", step.seconds}};
  json["checks"] = Json::array();
  for (const LevelReport& check : step.checks) json["checks"].push_back(check_json(check));
  json["hazards"] = Json::array();
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

}  // namespace

nlohmann::ordered_json scenario_json(const ScenarioReport& report) {
  Json json = {{"file", report.file},
               {"strategy", report.strategy},
               {"status", name(report.status)},
               {"seconds", report.seconds},
               {"error", report.bad_input.empty() ? Json(nullptr) : Json(report.bad_input)}};
  json["steps"] = Json::array();
  for (const StepReport& step : report.steps) json["steps"].push_back(step_json(step));
  return json;
}

}  // namespace dcp
