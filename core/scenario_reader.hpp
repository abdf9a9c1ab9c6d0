// Strict reader of scenario files. The format is documented in scenarios/README.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/scenario.hpp"

namespace dcp {

// A value from the command line: `--set graph.ubatches=2`. Dotted keys; missing maps are created;
// the value is YAML.
struct Override {
  std::string key;
  std::string value;
};

// Reads the file. Throws InputError with file:line:col, the rule and, for a near miss, the nearest
// key. Errors in an override are placed at "--set KEY=VALUE".
Scenario read_scenario(const std::string& path, const std::vector<Override>& overrides = {});

// The same for text that is in memory; `file` is only for messages.
Scenario parse_scenario(std::string file, std::string text,
                        const std::vector<Override>& overrides = {});

// Throws InputError with its place where the scenario uses a key or verb that the engine does not
// support yet ("'strategy: direct' is not supported yet").
void require_supported(const Scenario& scenario);

// The model presets by name, in alphabetical order.
const std::vector<std::pair<std::string, Model>>& model_presets();

}  // namespace dcp
