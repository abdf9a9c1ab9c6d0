// Files that a command leaves for other programs.
#pragma once

#include <string>
#include <string_view>

namespace dcp {

struct Options;

// Throws InputError where the file cannot be written: said before the work, not after it.
void require_writable(const std::string& path);

// Throws InputError where a report would replace what the command reads: a path of `options`, or a
// file with the extension of an input inside of one.
void require_no_input_is_overwritten(const Options& options);

// Throws InputError where the file cannot be written.
void write_report_file(const std::string& path, std::string_view text);

}  // namespace dcp
