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
    {{"strategy", "direct"},
     [](const Scenario& s) {
       return std::count(s.strategies.begin(), s.strategies.end(), "direct") > 0;
     }},
    {{"query", "direct"}, [](const Scenario& s) { return s.query == QueryMode::kDirect; }},
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
    {{"kv.dtype", "fp8_e4m3"}, [](const Scenario& s) { return s.kv.dtype == DType::kFp8E4m3; }},
    {{"kv_gather", "{tokens, dim, dtype}"},
     [](const Scenario& s) { return s.kv_gather.has_value(); }},
    {{"graph.pool", "shared"},
     [](const Scenario& s) { return s.graph.pool == GraphPool::kShared; }},
    {{"workspace.policy", "growable"},
     [](const Scenario& s) { return s.workspace.policy == WorkspacePolicy::kGrowable; }},
    {{"workspace.need", "{rows: bytes}"},
     [](const Scenario& s) { return !s.workspace.need.empty(); }},
};

constexpr std::string_view kVerbs[] = {
    "together",       "lock",   "grow",         "allocate", "free",  "rebind",
    "remap",          "canary", "check_canary", "set",      "stall", "skip",
    "during_capture", "throw",  "fork",         "join",     "place",
};

// Text of what a step uses and is not supported, as "replay.stream: s1", else "".
struct StepOption {
  std::string_view key;
  std::string (*unsupported)(const Verb& verb);
};

template <class V>
std::string stream_of(const Verb& verb) {
  const auto* run = std::get_if<V>(&verb);
  return run == nullptr ? "" : run->stream;
}

template <class V>
std::string no_wait_of(const Verb& verb) {
  const auto* run = std::get_if<V>(&verb);
  return run == nullptr || run->wait ? "" : "false";
}

constexpr StepOption kStepOptions[] = {
    {"replay.stream", stream_of<verb::Replay>},
    {"replay.wait", no_wait_of<verb::Replay>},
    {"eager.stream", stream_of<verb::Eager>},
    {"eager.wait", no_wait_of<verb::Eager>},
};

// What all ranks do together, unless it stands inside `together`.
constexpr std::string_view kVerbsOfAllRanks[] = {
    "capture", "replay", "eager", "together", "sync", "lock", "grow", "stub_attention", "destroy",
};

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

void require_supported_step(const Scenario& scenario, std::size_t index) {
  const Step& step = scenario.steps[index];
  const std::string path = "steps." + std::to_string(index) + ".";
  if (!is_supported_verb(step.verb_name)) {
    refuse(step.place, "verb: " + step.verb_name);
  }
  for (const StepOption& option : kStepOptions) {
    const std::string value = option.unsupported(step.verb);
    if (value.empty()) continue;
    const std::string key(option.key);
    refuse(place_of(scenario, path + key), key + ": " + value);
  }
  if (step.rank && std::find(std::begin(kVerbsOfAllRanks), std::end(kVerbsOfAllRanks),
                             step.verb_name) != std::end(kVerbsOfAllRanks)) {
    throw InputError(place_of(scenario, path + "rank"),
                     "'rank' does not apply to '" + step.verb_name +
                         "': all ranks do it ('together' gives ranks steps of their own)");
  }
  if (step.expect && expects_hazards(*step.expect)) {
    refuse(place_of(scenario, path + "expect.hazards"), "expect.hazards");
  }
}

}  // namespace

std::vector<UnsupportedSetting> unsupported_settings() {
  std::vector<UnsupportedSetting> settings;
  for (const Setting& setting : kSettings) settings.push_back(setting.what);
  settings.push_back({"expect.hazards", "[kind, ...]"});  // a key of steps: require_supported_step
  return settings;
}

bool is_supported_verb(std::string_view verb) {
  return std::find(std::begin(kVerbs), std::end(kVerbs), verb) == std::end(kVerbs);
}

void require_supported(const Scenario& scenario) {
  for (const Setting& setting : kSettings) {
    if (!setting.is_used(scenario)) continue;
    const std::string key(setting.what.key);
    refuse(place_of(scenario, key), key + ": " + std::string(setting.what.value));
  }
  for (std::size_t i = 0; i < scenario.steps.size(); ++i) require_supported_step(scenario, i);
}

}  // namespace dcp
