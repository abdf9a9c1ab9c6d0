// Readers of single values: each checks type, spelling and range, and throws InputError at the
// value. `key` is the dotted key for messages. The factories below return readers of the form
// (const YamlNode&, const std::string& key) -> value, for MapReader and read_list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/yaml_text.hpp"
#include "core/yaml_tree.hpp"

namespace dcp::reader {

inline constexpr std::int64_t kMaxRows = std::int64_t{1} << 20;  // rows of one step
inline constexpr std::int64_t kMaxInt32 = 0x7FFFFFFF;  // lengths: the device's counts are 32-bit
inline constexpr std::int64_t kMinInt32 = -kMaxInt32 - 1;
inline constexpr int kMaxUbatches = 16;
inline constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;

struct Range {
  std::int64_t min;
  std::int64_t max;
};

[[noreturn]] void refuse(const YamlNode& node, const std::string& message);
// "'key' must be WHAT, not VALUE" at the value.
[[noreturn]] void refuse_type(const YamlNode& node, const std::string& key,
                              const std::string& what);

// The value for a message: "a list", "the word 'x'", "the string \"x\"". Long text is cut.
std::string describe(const YamlNode& node);
// "a, b, c".
std::string joined(std::span<const std::string_view> words);

// Decimal integer without leading zeros: 0x, 0o, 010, 1_000, 4.0 and "4" are refused.
std::int64_t read_integer(const YamlNode& node, const std::string& key, Range range);
std::uint64_t read_seed(const YamlNode& node, const std::string& key);  // 0 .. 2^64-1
// Decimal number; inf, .inf, nan and .nan with a sign in any case.
double read_real(const YamlNode& node, const std::string& key);
bool read_bool(const YamlNode& node, const std::string& key);
// Text or a name. Plain words that YAML takes for booleans, null or numbers need quotes.
std::string read_text(const YamlNode& node, const std::string& key);
// As read_text, and not empty.
std::string read_name(const YamlNode& node, const std::string& key);
// One of a closed list, quoted or not.
std::size_t read_choice(const YamlNode& node, const std::string& key,
                        std::span<const std::string_view> words);

inline auto integer(std::int64_t min, std::int64_t max) {
  return [=](const YamlNode& node, const std::string& key) {
    return read_integer(node, key, {min, max});
  };
}

template <class Value>
using Word = std::pair<std::string_view, Value>;

// Reader of one word of a table with static lifetime.
template <class Value, std::size_t kSize>
auto one_of(const Word<Value> (&table)[kSize]) {
  return [&table](const YamlNode& node, const std::string& key) {
    std::string_view words[kSize];
    for (std::size_t i = 0; i < kSize; ++i) words[i] = table[i].first;
    return table[read_choice(node, key, words)].second;
  };
}

// Reader of a list; `item` reads each item.
template <class Item>
auto list_of(Item item) {
  return [=](const YamlNode& node, const std::string& key) {
    if (node.kind != YamlNode::Kind::kList) refuse_type(node, key, "a list");
    std::vector<decltype(item(node, key))> values;
    values.reserve(node.items.size());
    for (const YamlNode& value : node.items) values.push_back(item(value, key));
    return values;
  };
}

}  // namespace dcp::reader
