// Files that a command leaves for other programs.
#pragma once

#include <string>
#include <string_view>

namespace dcp {

// Throws InputError where the file cannot be written: said before the work, not after it.
void require_writable(const std::string& path);

// Throws InputError where the file cannot be written.
void write_report_file(const std::string& path, std::string_view text);

}  // namespace dcp
