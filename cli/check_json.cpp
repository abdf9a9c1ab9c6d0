#include "cli/check_json.hpp"

#include "cli/comparison_json.hpp"
#include "harness/report.hpp"

namespace dcp {

namespace {

using Json = nlohmann::ordered_json;

Json optional_json(const std::optional<Comparison>& comparison) {
  return comparison ? comparison_json(*comparison) : Json(nullptr);
}

Json send_json(const std::optional<SendVerdict>& send) {
  if (!send) return nullptr;
  Json json = {{"equal", !send->wrong.has_value()}, {"first_wrong", nullptr}};
  if (!send->wrong) return json;
  const WrongLane& wrong = *send->wrong;
  json["first_wrong"] = {{"rank", wrong.rank}, {"peer", wrong.peer}, {"row", wrong.row},
                         {"head", wrong.head}, {"lane", wrong.lane}, {"got", wrong.got},
                         {"want", wrong.want}};
  return json;
}

Json verdict_json(const VectorVerdict& verdict) {
  const bool ran = verdict.failure.empty();
  return {{"strategy", verdict.strategy},
          {"variant", verdict.variant},
          {"status", name(verdict.passed() ? Status::kPass : Status::kFail)},
          {"out", ran ? comparison_json(verdict.ours.out) : Json(nullptr)},
          {"lse", ran ? comparison_json(verdict.ours.lse) : Json(nullptr)},
          {"send", send_json(verdict.send)},
          {"seed",
           {{"within_tolerance", verdict.seed_passed()},
            {"out", optional_json(verdict.seed_out)},
            {"lse", optional_json(verdict.seed_lse)}}},
          {"failure", ran ? Json(nullptr) : Json(verdict.failure)}};
}

Json engine_json(const EngineVerdict& verdict) {
  Json json = {{"status", name(verdict.passed() ? Status::kPass : Status::kFail)},
               {"out", verdict.has_out ? comparison_json(verdict.engine.out) : Json(nullptr)},
               {"lse", verdict.has_lse ? comparison_json(verdict.engine.lse) : Json(nullptr)},
               {"explanations", Json::array()}};
  for (const Explanation& explanation : verdict.explanations) {
    json["explanations"].push_back({{"name", explanation.name}, {"text", explanation.text}});
  }
  return json;
}

}  // namespace

Json checked_case_json(const CheckedCase& checked) {
  Json json = {{"name", checked.name}, {"checks", Json::array()}, {"engine", nullptr}};
  for (const VectorVerdict& verdict : checked.verdicts) {
    json["checks"].push_back(verdict_json(verdict));
  }
  if (checked.engine) json["engine"] = engine_json(*checked.engine);
  return json;
}

}  // namespace dcp
