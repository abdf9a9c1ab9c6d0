// Readers of step verbs, and what they may refer to.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/scenario.hpp"
#include "core/yaml_tree.hpp"

namespace dcp::reader {

// What has been read before the step at hand.
struct StepScope {
  const Scenario& scenario;  // everything but the steps
  std::set<std::string, std::less<>> batches;
  std::set<std::string, std::less<>> allocated;   // buffers of earlier `allocate` steps
  std::set<std::string, std::less<>> step_names;  // of earlier steps
  std::int64_t num_steps = 0;                     // earlier steps of the file's list
  bool inside_together = false;
  std::vector<std::pair<const YamlNode*, std::string>> until;  // references that may point forward
};

// One step, and the names that it adds to the scope.
Step read_step(const YamlNode& node, StepScope& scope);

// `value` is what follows the verb, `key` the verb.
using ReadVerb = Verb (*)(const YamlNode& value, const std::string& key, StepScope& scope);

Verb read_capture(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_replay(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_eager(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_together(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_sync(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_destroy(const YamlNode& value, const std::string& key, StepScope& scope);

Verb read_lock(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_grow(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_allocate(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_free(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_rebind(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_remap(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_poison(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_canary(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_check_canary(const YamlNode& value, const std::string& key, StepScope& scope);

Verb read_stub_attention(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_set(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_stall(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_skip(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_during_capture(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_throw(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_fork(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_join(const YamlNode& value, const std::string& key, StepScope& scope);
Verb read_place(const YamlNode& value, const std::string& key, StepScope& scope);

Expect read_expect(const YamlNode& node, const std::string& key, const StepScope& scope);

// Refuses an expectation that nothing would ever be held to, and one of steps that run together and
// contradict each other. `node` is the whole step.
void check_expect(const YamlNode& node, const Step& step, const StepScope& scope);

// A step's name, or its index as a decimal number; refused where neither an earlier step has the
// name nor the index is below `num_steps`.
std::string read_earlier_step(const YamlNode& node, const std::string& key, const StepScope& scope);

}  // namespace dcp::reader
