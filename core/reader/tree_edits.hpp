// Edits of the tree before it is read: other spellings of keys, and values from the command line.
#pragma once

#include <map>
#include <string>

#include "core/scenario_reader.hpp"
#include "core/yaml_tree.hpp"

namespace dcp::reader {

// Renames keys that have another spelling to the format's and moves them where they belong; each is
// recorded as spelling -> dotted key. Refuses a key that is given under both.
void rename_aliases(YamlNode& root, std::map<std::string, std::string>& aliases_used);

// Sets the value at the dotted key; missing maps are created, and where a word is short for a map
// (`model: tiny`, `workspace: fixed`) it is written out. Errors are placed at "--set KEY=VALUE".
void apply_override(YamlNode& root, const Override& override,
                    std::map<std::string, std::string>& aliases_used);

// Dotted key -> where its value stands; items of lists are counted from 0.
std::map<std::string, Place> places_of_keys(const YamlNode& root);

}  // namespace dcp::reader
