#include "cli/shell_word.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/printable_text.hpp"

namespace dcp {

namespace {

std::string octal(char byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\%03o",
                static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text.data();
}

// $'...' with escapes, which POSIX has since 2024 and shells for longer.
std::string escaped(const std::string& word) {
  std::string quoted = "$'";
  for (const char c : word) {
    const bool is_plain = c >= 0x20 && c < 0x7F && c != '\'' && c != '\\';
    quoted += is_plain ? std::string(1, c) : octal(c);
  }
  return quoted + "'";
}

// Whether a terminal shows the word as it is; it may be longer than a message would show.
bool is_printable(const std::string& word) {
  constexpr std::size_t kPart = 100;
  for (std::size_t i = 0; i < word.size();) {
    std::size_t size = std::min(kPart, word.size() - i);
    while (i + size < word.size() && is_utf8_continuation(word[i + size])) ++size;
    const std::string part = word.substr(i, size);
    if (printable_text(part) != part) return false;
    i += size;
  }
  return true;
}

}  // namespace

std::string in_shell(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+@%-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  if (!is_printable(word)) return escaped(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace dcp
