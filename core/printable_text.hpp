// Text of others (paths, words of a command line or a scenario) inside a line for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dcp {

struct Utf8Character {
  std::uint32_t code = 0;
  std::size_t size = 0;  // bytes; 0: not UTF-8
};

// The character at `offset` (Unicode 15, table 3-7: shortest form, no surrogates).
Utf8Character decode_utf8(std::string_view text, std::size_t offset);

// Whether the byte continues a character that began before it.
bool is_utf8_continuation(char byte);

// One line that a terminal shows as it is: control characters and bytes that are not UTF-8 become
// escapes as in C ("\n", "\x1B"), and a word of more than 200 bytes ends after them with "...".
std::string printable_text(std::string_view text);

// Nine digits, enough to tell any two fp32 numbers apart: "1.3984375", "1e-30", "-inf", "nan".
std::string number_text(double value);

}  // namespace dcp
