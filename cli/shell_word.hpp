// Words of the commands that reports print for people to paste.
#pragma once

#include <string>

namespace dcp {

// `word` as one word of a POSIX shell and in one printable line, in quotes where it needs them.
std::string in_shell(const std::string& word);

}  // namespace dcp
