// What the format has and the engine has not yet. Each line goes when its feature comes.
#include <algorithm>

#include "core/scenario_reader.hpp"

namespace dcp {

namespace {

// Text of the value where it is not supported, else "".
struct Setting {
  std::string_view key;
  std::string (*unsupported)(const Scenario& scenario);
};

constexpr Setting kSettings[] = {
    {"strategy",
     [](const Scenario& s) -> std::string {
       return std::count(s.strategies.begin(), s.strategies.end(), "direct") > 0 ? "direct" : "";
     }},
    {"query",
     [](const Scenario& s) -> std::string {
       return s.query == QueryMode::kDirect ? "direct" : "";
     }},
    {"attention_split",
     [](const Scenario& s) -> std::string {
       if (s.attention_split == AttentionSplit::kNone) return "";
       if (s.model.attention == Attention::kMla) return "context_then_new with attention: mla";
       return s.data.kind == DataKind::kGiven ? "context_then_new with data: given" : "";
     }},
    {"kv.dtype",
     [](const Scenario& s) -> std::string {
       return s.kv.dtype == DType::kFp8E4m3 ? "fp8_e4m3" : "";
     }},
    {"kv_gather",
     [](const Scenario& s) -> std::string { return s.kv_gather ? "{tokens, dim, dtype}" : ""; }},
};

// What of a step is not supported, as "set.epoch", else "".
std::string unsupported_part(const Verb& verb) {
  const auto* set = std::get_if<verb::Set>(&verb);
  if (set != nullptr && (set->key == "epoch" || set->key == "strategy")) return "set." + set->key;
  const auto* stall = std::get_if<verb::Stall>(&verb);
  if (stall != nullptr && stall->at != "combine") return "stall.at: " + stall->at;
  return "";
}

bool expects_hazards(const Expect& expect) {
  return !expect.hazards.empty() ||
         std::any_of(expect.by_strategy.begin(), expect.by_strategy.end(),
                     [](const auto& entry) { return expects_hazards(entry.second); });
}

// Where the key stands, or the nearest map around it that the file has.
Place place_of(const Scenario& scenario, std::string key) {
  while (true) {
    const auto found = scenario.places.find(key);
    if (found != scenario.places.end()) return found->second;
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos) return {scenario.file, 1, 1};
    key.resize(dot);
  }
}

[[noreturn]] void refuse(const Place& place, const std::string& what) {
  throw InputError(place, "'" + what + "' is not supported yet");
}

// `path`: of the step's keys in the file.
void require_supported_step(const Scenario& scenario, const Step& step, const std::string& path) {
  const std::string part = unsupported_part(step.verb);
  if (!part.empty()) refuse(place_of(scenario, path + part.substr(0, part.find(':'))), part);
  if (step.expect && expects_hazards(*step.expect)) {
    refuse(place_of(scenario, path + "expect.hazards"), "expect.hazards");
  }
  const auto* together = std::get_if<verb::Together>(&step.verb);
  for (std::size_t i = 0; together != nullptr && i < together->steps.size(); ++i) {
    require_supported_step(scenario, together->steps[i],
                           path + "together." + std::to_string(i) + ".");
  }
}

}  // namespace

void require_supported(const Scenario& scenario) {
  for (const Setting& setting : kSettings) {
    const std::string value = setting.unsupported(scenario);
    if (value.empty()) continue;
    const std::string key(setting.key);
    refuse(place_of(scenario, key), key + ": " + value);
  }
  for (std::size_t i = 0; i < scenario.steps.size(); ++i) {
    require_supported_step(scenario, scenario.steps[i], "steps." + std::to_string(i) + ".");
  }
}

}  // namespace dcp
