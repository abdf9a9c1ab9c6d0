#include "core/yaml_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "core/yaml_tree.hpp"

namespace dcp {

namespace {

constexpr std::size_t kShownBytes = 40;
constexpr int kMaxOpenBrackets =
    1000;  // above kMaxYamlDepth: brackets in quotes and comments count here

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

struct Character {
  std::uint32_t code = 0;
  std::size_t size = 0;  // bytes; 0: not UTF-8
};

// Decodes the character at `offset` (Unicode 15, table 3-7: shortest form, no surrogates).
Character decode(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return static_cast<unsigned char>(text[offset + i]);
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || offset + size > text.size()) return {};
  std::uint32_t code = lead & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[offset + i])) return {};
    code = (code << 6) | (byte(i) & 0x3Fu);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[size] || code > 0x10FFFF || surrogate) return {};
  return {code, size};
}

bool is_control(std::uint32_t code) {
  return (code < 0x20 && code != '\n' && code != '\r') ||
         (code >= 0x7F && code < 0xA0 && code != 0x85);
}

std::string hex(const char* format, std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, static_cast<unsigned>(value));
  return text.data();
}

// Why the character may not stand here, or "".
std::string complaint(std::string_view text, std::size_t offset, Character character) {
  if (character.size == 0) {
    return "invalid UTF-8: byte " + hex("0x%02X", static_cast<unsigned char>(text[offset]));
  }
  if (character.code == '\t') return "a tab is not allowed: use spaces";
  if (character.code == '\r' && text.substr(offset, 2) != "\r\n") {
    return "a carriage return is allowed only before a line feed";
  }
  if (character.code == 0xFEFF && offset > 0) return "a byte order mark inside the text";
  if (is_control(character.code)) {
    return "control character " + hex("U+%04X", character.code) + " is not allowed";
  }
  return "";
}

}  // namespace

Place place_of_byte(const std::string& file, std::string_view text, std::size_t offset) {
  Place place{file, 1, 1};
  for (std::size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++place.line;
      place.column = 1;
    } else if (!is_continuation(text[i])) {
      ++place.column;
    }
  }
  return place;
}

void check_yaml_text(const std::string& file, std::string_view text) {
  if (text.size() > kMaxYamlBytes) throw InputError({file}, "longer than 1 MiB");
  int open_brackets = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const Character character = decode(text, offset);
    std::string message = complaint(text, offset, character);
    if (character.code == '[' || character.code == '{') ++open_brackets;
    if (character.code == ']' || character.code == '}') --open_brackets;
    if (open_brackets > kMaxOpenBrackets) {
      message = "nested deeper than " + std::to_string(kMaxYamlDepth) + " levels";
    }
    if (!message.empty()) throw InputError(place_of_byte(file, text, offset), message);
    offset += character.size;
  }
}

std::string shown(std::string_view text) {
  std::string result(text.substr(0, kShownBytes));
  // No half of a character at the cut.
  if (text.size() > kShownBytes) {
    std::size_t size = kShownBytes;
    while (size > 0 && is_continuation(text[size])) --size;
    result.resize(size);
    result += "...";
  }
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return result;
}

}  // namespace dcp
