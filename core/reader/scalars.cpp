#include "core/reader/scalars.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/spelling.hpp"

namespace dcp::reader {

namespace {

constexpr std::size_t kMaxListedWords = 8;  // a longer list is shown only where no word is near

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string_view without_sign(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text;
}

// What YAML 1.1 or 1.2 may take for a boolean.
bool is_boolean_word(std::string_view text) {
  constexpr std::string_view kWords[] = {"yes", "no", "on", "off", "true", "false", "y", "n"};
  return std::count(std::begin(kWords), std::end(kWords), lower(text)) > 0;
}

bool is_null_word(std::string_view text) { return text == "~" || lower(text) == "null"; }

bool is_decimal_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return false;
  return text == "0" || text.front() != '0';
}

// [-] digits [. digits] [e [sign] digits], without leading zeros.
bool is_decimal_real(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t integer = std::find_if_not(text.begin(), text.end(), is_digit) - text.begin();
  if (integer == 0 || (integer > 1 && text.front() == '0')) return false;
  text.remove_prefix(integer);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::size_t fraction =
        std::find_if_not(text.begin(), text.end(), is_digit) - text.begin();
    if (fraction == 0) return false;
    text.remove_prefix(fraction);
  }
  if (text.empty()) return true;
  if (lower(text.substr(0, 1)) != "e") return false;
  text = without_sign(text.substr(1));
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// A plain word that some YAML reader takes for a number or a date.
bool is_number_like(std::string_view text) {
  if (is_decimal_real(text)) return true;
  const std::string digits = lower(without_sign(text));
  if (digits == ".inf" || digits == ".nan") return true;
  if (digits.empty() || !is_digit(digits[digits.front() == '.' ? 1 : 0])) return false;
  return digits.starts_with("0x") || digits.starts_with("0o") || digits.starts_with("0b") ||
         digits.find_first_not_of("0123456789._-:+") == std::string::npos;
}

// Refuses the spellings of numbers that readers disagree about: 010 is 8 for some, 10 for others.
void refuse_odd_number(const YamlNode& node, const std::string& key) {
  const std::string digits = lower(without_sign(node.text));
  if (digits.size() < 2 || digits[0] != '0') return;
  if (digits[1] == 'x' || digits[1] == 'o' || digits[1] == 'b') {
    refuse(node, "'" + key + "' must be a decimal number, not '" + shown(node.text) + "'");
  }
  if (is_digit(digits[1])) {
    refuse(node, "'" + key + "' must not start with 0 (octal?): '" + shown(node.text) + "'");
  }
}

std::string range_text(const std::string& min, const std::string& max) {
  return "in " + min + " .. " + max;
}

template <class Integer>
Integer parse_integer(const YamlNode& node, const std::string& key, Integer min, Integer max) {
  if (!node.is_plain()) refuse_type(node, key, "an integer");
  refuse_odd_number(node, key);
  if (!is_decimal_integer(node.text)) refuse_type(node, key, "an integer");
  Integer value{};
  const char* end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  if (stop != end || error != std::errc{} || value < min || value > max) {
    refuse(node, "'" + key + "' must be " + range_text(std::to_string(min), std::to_string(max)) +
                     ", not " + shown(node.text));
  }
  return value;
}

}  // namespace

void refuse(const YamlNode& node, const std::string& message) {
  throw InputError(node.place, message);
}

void refuse_type(const YamlNode& node, const std::string& key, const std::string& what) {
  refuse(node, "'" + key + "' must be " + what + ", not " + describe(node));
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "null";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  if (node.quoted) return "the string \"" + shown(node.text) + "\"";
  return "'" + shown(node.text) + "'";
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

std::int64_t read_integer(const YamlNode& node, const std::string& key, Range range) {
  return parse_integer<std::int64_t>(node, key, range.min, range.max);
}

std::uint64_t read_seed(const YamlNode& node, const std::string& key) {
  return parse_integer<std::uint64_t>(node, key, 0, std::numeric_limits<std::uint64_t>::max());
}

double read_real(const YamlNode& node, const std::string& key) {
  if (!node.is_plain()) refuse_type(node, key, "a number");
  const bool negative = node.text.starts_with('-');
  std::string special = lower(without_sign(node.text));
  if (special.starts_with('.')) special.erase(0, 1);
  if (special == "inf") {
    const double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  if (special == "nan") return std::numeric_limits<double>::quiet_NaN();
  refuse_odd_number(node, key);
  if (!is_decimal_real(node.text)) refuse_type(node, key, "a number");
  double value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  if (stop != end || error != std::errc{}) {
    refuse(node, "'" + key + "' is out of the range of a 64-bit float: " + shown(node.text));
  }
  return value;
}

bool read_bool(const YamlNode& node, const std::string& key) {
  if (!node.is_plain() || (node.text != "true" && node.text != "false")) {
    refuse_type(node, key, "true or false");
  }
  return node.text == "true";
}

std::string read_text(const YamlNode& node, const std::string& key) {
  if (node.kind != YamlNode::Kind::kScalar) refuse_type(node, key, "text");
  if (node.quoted) return node.text;
  const char* taken_for = nullptr;
  if (is_boolean_word(node.text)) taken_for = "a boolean";
  if (is_null_word(node.text)) taken_for = "null";
  if (is_number_like(node.text)) taken_for = "a number";
  if (taken_for != nullptr) {
    refuse(node, "'" + key + "' must be text, and YAML takes '" + shown(node.text) + "' for " +
                     taken_for + ": put it in quotes");
  }
  return node.text;
}

std::string read_name(const YamlNode& node, const std::string& key) {
  std::string name = read_text(node, key);
  if (name.empty()) refuse(node, "'" + key + "' must not be empty");
  return name;
}

std::size_t read_choice(const YamlNode& node, const std::string& key,
                        std::span<const std::string_view> words) {
  const std::string what = "one of " + joined(words);
  if (node.kind != YamlNode::Kind::kScalar) refuse_type(node, key, what);
  const auto found = std::find(words.begin(), words.end(), node.text);
  if (found == words.end()) {
    const std::string suggestion = did_you_mean(node.text, words);
    if (!suggestion.empty() && words.size() > kMaxListedWords) {
      refuse(node, "unknown word " + describe(node) + " for '" + key + "'" + suggestion);
    }
    refuse(node, "'" + key + "' must be " + what + ", not " + describe(node) + suggestion);
  }
  return static_cast<std::size_t>(found - words.begin());
}

}  // namespace dcp::reader
