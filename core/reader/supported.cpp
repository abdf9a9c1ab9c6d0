// What the format has and the engine has not yet. Each line goes when its feature comes.
#include "core/supported.hpp"

#include <algorithm>

#include "core/scenario_reader.hpp"

namespace dcp {

namespace {

struct Setting {
  UnsupportedSetting what;
  bool (*is_used)(const Scenario& scenario);
};

constexpr Setting kSettings[] = {
    {{"attention_split", "context_then_new with attention: mla"},
     [](const Scenario& s) {
       return s.attention_split == AttentionSplit::kContextThenNew &&
              s.model.attention == Attention::kMla;
     }},
    {{"attention_split", "context_then_new with data: given"},
     [](const Scenario& s) {
       return s.attention_split == AttentionSplit::kContextThenNew &&
              s.data.kind == DataKind::kGiven;
     }},
};

// What of a step is not supported, as "set.strategy", else "".
std::string unsupported_part(const Verb& verb) {
  const auto* set = std::get_if<verb::Set>(&verb);
  if (set != nullptr && set->key == "strategy") return "set." + set->key;
  return "";
}

// What all ranks do together, unless it stands inside `together`.
constexpr std::string_view kVerbsOfAllRanks[] = {
    "capture", "together", "sync", "lock", "grow", "stub_attention", "destroy",
};

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

[[noreturn]] void refuse_unsupported(const Place& place, const std::string& what) {
  throw InputError(place, "'" + what + "' is not supported yet");
}

void require_all_ranks(const Scenario& scenario, const Step& step, const std::string& path) {
  const bool is_of_all = std::find(std::begin(kVerbsOfAllRanks), std::end(kVerbsOfAllRanks),
                                   step.verb_name) != std::end(kVerbsOfAllRanks);
  if (!step.rank || !is_of_all) return;
  throw InputError(place_of(scenario, path + "rank"),
                   "'rank' does not apply to '" + step.verb_name +
                       "': all ranks do it ('together' gives ranks steps of their own)");
}

// `path`: of the step's keys in the file.
void require_supported_step(const Scenario& scenario, const Step& step, const std::string& path) {
  const std::string part = unsupported_part(step.verb);
  if (!part.empty())
    refuse_unsupported(place_of(scenario, path + part.substr(0, part.find(':'))), part);
  const auto* together = std::get_if<verb::Together>(&step.verb);
  for (std::size_t i = 0; together != nullptr && i < together->steps.size(); ++i) {
    require_supported_step(scenario, together->steps[i],
                           path + "together." + std::to_string(i) + ".");
  }
}

}  // namespace

std::vector<UnsupportedSetting> unsupported_settings() {
  std::vector<UnsupportedSetting> settings;
  for (const Setting& setting : kSettings) settings.push_back(setting.what);
  // Keys of steps: require_supported_step.
  settings.push_back({"set", "strategy"});
  return settings;
}

void require_supported(const Scenario& scenario) {
  for (const Setting& setting : kSettings) {
    if (!setting.is_used(scenario)) continue;
    const std::string key(setting.what.key);
    refuse_unsupported(place_of(scenario, key), key + ": " + std::string(setting.what.value));
  }
  for (std::size_t i = 0; i < scenario.steps.size(); ++i) {
    const std::string path = "steps." + std::to_string(i) + ".";
    require_all_ranks(scenario, scenario.steps[i], path);
    require_supported_step(scenario, scenario.steps[i], path);
  }
}

}  // namespace dcp
