// What the bytes of a YAML text must be before a parser sees them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace dcp {

// Line and column (in characters) of the byte at `offset`, both from 1.
Place place_of_byte(const std::string& file, std::string_view text, std::size_t offset);

// Throws InputError, placed at the offending byte, where the text is not UTF-8, holds a control
// character, a tab, a lone carriage return or a byte order mark past its start, is longer than
// kMaxYamlBytes, or opens more brackets than any scenario needs. yaml-cpp itself replaces or skips
// bad bytes, takes byte 4 as the end of the text, and scans a whole line of brackets before its own
// guard against deep nesting can act.
void check_yaml_text(const std::string& file, std::string_view text);

// Text of a scenario for a message: as printable_text, cut after 40 bytes.
std::string shown(std::string_view text);

}  // namespace dcp
