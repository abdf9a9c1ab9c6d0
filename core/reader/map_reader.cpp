#include "core/reader/map_reader.hpp"

#include <algorithm>
#include <cassert>

#include "core/spelling.hpp"

namespace dcp::reader {

MapReader::MapReader(const YamlNode& node, std::string path,
                     std::initializer_list<std::string_view> keys,
                     std::initializer_list<std::string_view> spellings)
    : node_(node), path_(std::move(path)), keys_(keys) {
  if (node.kind != YamlNode::Kind::kMap) {
    if (path_.empty()) refuse(node, "a scenario must be a map of keys, not " + describe(node));
    refuse_type(node, path_, "a map");
  }
  for (const YamlNode::Entry& entry : node.entries) {
    if (std::find(keys_.begin(), keys_.end(), entry.key.text) != keys_.end()) continue;
    std::vector<std::string_view> candidates = keys_;
    candidates.insert(candidates.end(), spellings.begin(), spellings.end());
    std::string message = "unknown key '" + shown(entry.key.text) + "'";
    const std::string suggestion = did_you_mean(entry.key.text, candidates);
    message += suggestion.empty() ? " (known: " + joined(keys_) + ")" : suggestion;
    refuse(entry.key, message);
  }
}

const YamlNode* MapReader::find(std::string_view key) const {
  assert(std::find(keys_.begin(), keys_.end(), key) != keys_.end());
  return node_.find(key);
}

const YamlNode& MapReader::require(std::string_view key) const {
  if (const YamlNode* value = find(key)) return *value;
  const std::string where = path_.empty() ? "" : " in '" + path_ + "'";
  refuse(node_, "missing key '" + std::string(key) + "'" + where);
}

std::string MapReader::path(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

}  // namespace dcp::reader
