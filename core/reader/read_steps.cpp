// Steps: one verb each, with rank, name and expect.
#include <algorithm>

#include "core/reader/map_reader.hpp"
#include "core/reader/parts.hpp"
#include "core/reader/read_verbs.hpp"
#include "core/spelling.hpp"

namespace dcp::reader {

namespace {

struct VerbEntry {
  std::string_view name;
  ReadVerb read;
};

constexpr VerbEntry kVerbs[] = {
    {"capture", read_capture},
    {"replay", read_replay},
    {"eager", read_eager},
    {"together", read_together},
    {"sync", read_sync},
    {"lock", read_lock},
    {"grow", read_grow},
    {"allocate", read_allocate},
    {"free", read_free},
    {"rebind", read_rebind},
    {"remap", read_remap},
    {"poison", read_poison},
    {"canary", read_canary},
    {"check_canary", read_check_canary},
    {"stub_attention", read_stub_attention},
    {"set", read_set},
    {"stall", read_stall},
    {"skip", read_skip},
    {"during_capture", read_during_capture},
    {"throw", read_throw},
    {"fork", read_fork},
    {"join", read_join},
    {"place", read_place},
    {"destroy", read_destroy},
};

constexpr std::string_view kStepKeys[] = {"name", "rank", "expect"};

const VerbEntry* find_verb(std::string_view name) {
  const auto* found = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                   [&](const VerbEntry& verb) { return verb.name == name; });
  return found == std::end(kVerbs) ? nullptr : found;
}

bool is_step_key(std::string_view key) {
  return std::find(std::begin(kStepKeys), std::end(kStepKeys), key) != std::end(kStepKeys);
}

// The step's only verb; refuses other keys.
const YamlNode::Entry& find_verb_entry(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kMap) {
    refuse(node, "a step must be a map such as {replay: BATCH}, not " + describe(node));
  }
  std::vector<std::string_view> words;
  for (const VerbEntry& verb : kVerbs) words.push_back(verb.name);
  const std::string verbs = joined(words);
  words.insert(words.end(), std::begin(kStepKeys), std::end(kStepKeys));
  const YamlNode::Entry* verb = nullptr;
  for (const YamlNode::Entry& entry : node.entries) {
    const std::string& key = entry.key.text;
    if (is_step_key(key)) continue;
    if (find_verb(key) == nullptr) {
      const std::string suggestion = did_you_mean(key, words);
      refuse(entry.key, "unknown verb or key '" + shown(key) + "'" +
                            (suggestion.empty() ? " (known: " + joined(words) + ")" : suggestion));
    }
    if (verb != nullptr) {
      refuse(entry.key,
             "a step has one verb; this one has '" + verb->key.text + "' and '" + key + "'");
    }
    verb = &entry;
  }
  if (verb == nullptr) refuse(node, "a step needs a verb: one of " + verbs);
  return *verb;
}

std::string read_step_name(const YamlNode& node, const StepScope& scope) {
  std::string name = read_name(node, "name");
  if (name.find_first_not_of("0123456789") == std::string::npos) {
    refuse(node, "a step's name must not be a number: '" + shown(name) + "' means a step's index");
  }
  if (scope.step_names.count(name) > 0) {
    refuse(node, "an earlier step has the name '" + shown(name) + "' already");
  }
  return name;
}

// A step and its buffer may each name the rank, and only one of them may.
void check_rank_of_buffer(const YamlNode& rank, const Verb& verb) {
  std::visit(
      [&](const auto& used) {
        if constexpr (requires { used.buffer.rank; }) {
          if (used.buffer.rank) refuse(rank, "'rank' is given here and with the buffer");
        }
      },
      verb);
}

void check_forward_references(const StepScope& scope) {
  for (const auto& [node, name] : scope.until) {
    if (scope.step_names.count(name) > 0) continue;
    const std::vector<std::string_view> names(scope.step_names.begin(), scope.step_names.end());
    refuse(*node, "no step has the name '" + shown(name) + "'" + did_you_mean(name, names));
  }
}

}  // namespace

Step read_step(const YamlNode& node, StepScope& scope) {
  const YamlNode::Entry& verb = find_verb_entry(node);
  Step step;
  step.place = node.place;
  step.verb_name = verb.key.text;
  step.verb = find_verb(verb.key.text)->read(verb.value, verb.key.text, scope);
  if (const YamlNode* rank = node.find("rank")) {
    step.rank = static_cast<int>(read_integer(*rank, "rank", {0, scope.scenario.world_size - 1}));
    check_rank_of_buffer(*rank, step.verb);
  }
  if (const YamlNode* expect = node.find("expect")) {
    step.expect = read_expect(*expect, "expect", scope);
  }
  check_expect(node, step, scope);
  if (const YamlNode* name = node.find("name")) {
    step.name = read_step_name(*name, scope);
    scope.step_names.insert(step.name);
  }
  return step;
}

std::vector<Step> read_steps(const YamlNode& node, const Scenario& scenario) {
  if (node.kind != YamlNode::Kind::kList) refuse_type(node, "steps", "a list of steps");
  if (node.items.empty())
    refuse(node, "'steps' must not be empty (without the key: the default steps)");
  StepScope scope{
      .scenario = scenario, .batches = {}, .allocated = {}, .step_names = {}, .until = {}};
  for (const Batch& batch : scenario.batches) scope.batches.insert(batch.name);
  std::vector<Step> steps;
  for (const YamlNode& item : node.items) {
    steps.push_back(read_step(item, scope));
    ++scope.num_steps;
  }
  check_forward_references(scope);
  return steps;
}

std::string read_earlier_step(const YamlNode& node, const std::string& key,
                              const StepScope& scope) {
  const bool is_index = node.is_plain() && !node.text.empty() &&
                        node.text.find_first_not_of("0123456789") == std::string::npos;
  if (is_index) {
    if (scope.num_steps == 0) refuse(node, "'" + key + "' must be an earlier step: there is none");
    return std::to_string(read_integer(node, key, {0, scope.num_steps - 1}));
  }
  std::string name = read_name(node, key);
  if (scope.step_names.count(name) == 0) {
    const std::vector<std::string_view> names(scope.step_names.begin(), scope.step_names.end());
    refuse(node, "'" + key + "' must be an earlier step; none has the name '" + shown(name) + "'" +
                     did_you_mean(name, names));
  }
  return name;
}

}  // namespace dcp::reader
