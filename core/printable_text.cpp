#include "core/printable_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace dcp {

namespace {

constexpr std::size_t kMaxWordBytes = 200;

std::string escaped(char byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\x%02X",
                static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text.data();
}

// Controls of ASCII and of Latin-1, and what turns the direction of a line or ends it.
bool is_shown_as_is(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool turns = (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !control && !turns && code != 0xFEFF;
}

}  // namespace

bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

Utf8Character decode_utf8(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return static_cast<unsigned char>(text[offset + i]);
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || offset + size > text.size()) return {};
  std::uint32_t code = lead & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_utf8_continuation(text[offset + i])) return {};
    code = (code << 6) | (byte(i) & 0x3Fu);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[size] || code > 0x10FFFF || surrogate) return {};
  return {code, size};
}

std::string printable_text(std::string_view text) {
  std::string line;
  std::size_t word_bytes = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character character = decode_utf8(text, offset);
    const std::size_t size = character.size == 0 ? 1 : character.size;
    word_bytes = text[offset] == ' ' ? 0 : word_bytes + size;
    if (word_bytes > kMaxWordBytes) {
      if (!line.ends_with("...")) line += "...";
    } else if (character.size > 0 && is_shown_as_is(character.code)) {
      line += text.substr(offset, size);
    } else {
      for (const char byte : text.substr(offset, size)) line += escaped(byte);
    }
    offset += size;
  }
  return line;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";  // with or without a sign
  std::ostringstream text;
  text.precision(9);
  text << value;
  return text.str();
}

}  // namespace dcp
