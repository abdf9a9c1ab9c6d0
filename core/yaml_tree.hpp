// A YAML document as a tree that keeps what a strict reader must see: where each node stands,
// whether a scalar was quoted, and the order of keys. yaml-cpp does the scanning; its own node tree
// hides duplicate keys, empty list items, unclosed quotes and further documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace dcp {

struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  std::string text = {};  // scalar: its value
  bool quoted = false;    // scalar: in quotes, or a block of text
  Place place = {};
  std::vector<YamlNode> items = {};  // list
  std::vector<Entry> entries;        // map, in file order, no key twice

  bool is_plain() const { return kind == Kind::kScalar && !quoted; }

  // The value of `key`, or null where the map lacks it.
  const YamlNode* find(std::string_view key) const;
  YamlNode* find(std::string_view key);
};

struct YamlNode::Entry {
  YamlNode key;  // a scalar
  YamlNode value;
};

inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;
inline constexpr int kMaxYamlDepth = 64;

// Parses one document. Throws InputError at "file:line:column" for: more than kMaxYamlBytes,
// control characters, tabs, invalid UTF-8, nesting deeper than kMaxYamlDepth, syntax, no document
// or a further one, anchors, aliases and tags, duplicate keys, keys that are no scalars, keys
// without a value, empty list items, unclosed quotes.
YamlNode parse_yaml(const std::string& file, std::string_view text);

// The same for a value from the command line: every node and error is placed at `place`.
YamlNode parse_yaml_value(const Place& place, std::string_view text);

}  // namespace dcp
