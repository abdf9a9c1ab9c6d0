#include "core/yaml_text.hpp"

#include <array>
#include <cstdint>
#include <cstdio>

#include "core/printable_text.hpp"
#include "core/yaml_tree.hpp"

namespace dcp {

namespace {

constexpr std::size_t kShownBytes = 40;
constexpr int kMaxOpenBrackets =
    1000;  // above kMaxYamlDepth: brackets in quotes and comments count here

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
std::string complaint(std::string_view text, std::size_t offset, Utf8Character character) {
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
    } else if (!is_utf8_continuation(text[i])) {
      ++place.column;
    }
  }
  return place;
}

void check_yaml_text(const std::string& file, std::string_view text) {
  if (text.size() > kMaxYamlBytes) {
    throw InputError(place_of_byte(file, text, kMaxYamlBytes), "longer than 1 MiB");
  }
  int open_brackets = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character character = decode_utf8(text, offset);
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
  if (text.size() <= kShownBytes) return printable_text(text);
  std::size_t size = kShownBytes;  // no half of a character at the cut
  while (size > 0 && is_utf8_continuation(text[size])) --size;
  return printable_text(text.substr(0, size)) + "...";
}

}  // namespace dcp
