#include "core/reader/words.hpp"

#include <set>

#include "core/spelling.hpp"

namespace dcp::reader {

std::string read_kind(const YamlNode& node, const std::string& key, std::span<const Kind> kinds) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds) names.push_back(kind.name);
  return std::string(names[read_choice(node, key, names)]);
}

std::vector<std::string> read_strategies(const YamlNode& node, const std::string& key) {
  if (node.kind != YamlNode::Kind::kList) return {read_kind(node, key, strategy_kinds())};
  if (node.items.empty()) refuse(node, "'" + key + "' must not be empty");
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const YamlNode& item : node.items) {
    names.push_back(read_kind(item, key, strategy_kinds()));
    if (!seen.insert(names.back()).second) {
      refuse(item, "'" + key + "' names '" + names.back() + "' twice");
    }
  }
  return names;
}

std::vector<std::int64_t> read_distinct(const YamlNode& node, const std::string& key, Range range) {
  std::vector<std::int64_t> values = list_of(integer(range.min, range.max))(node, key);
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!seen.insert(values[i]).second) {
      refuse(node.items[i], "'" + key + "' has " + std::to_string(values[i]) + " twice");
    }
  }
  return values;
}

}  // namespace dcp::reader
