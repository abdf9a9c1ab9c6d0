#include "cli/report_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "cli/command_line.hpp"
#include "core/error.hpp"

namespace dcp {

namespace {

void require(bool is_written, const std::string& path) {
  if (!is_written) throw InputError({.file = path}, "cannot write this file");
}

namespace fs = std::filesystem;

bool is_inside(const fs::path& file, const fs::path& folder) {
  const fs::path relative =
      fs::weakly_canonical(file).lexically_relative(fs::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

// A vector file is JSON as well as a report, so only files that are there already count.
bool would_overwrite(const fs::path& report, const fs::path& input) {
  std::error_code error;
  if (fs::equivalent(report, input, error)) return true;
  if (!fs::exists(report, error) || !fs::is_directory(input, error)) return false;
  constexpr std::array<std::string_view, 3> kInputs{".yaml", ".yml", ".safetensors"};
  const std::string extension = report.extension().string();
  return std::find(kInputs.begin(), kInputs.end(), extension) != kInputs.end() &&
         is_inside(report, input);
}

}  // namespace

void require_no_input_is_overwritten(const Options& options) {
  std::vector<std::string> inputs = options.paths;
  if (!options.graph_path.empty()) inputs.push_back(options.graph_path);
  for (const std::string* report : {&options.json_path, &options.junit_path, &options.trace_path,
                                    &options.dot_path, &options.html_path}) {
    if (report->empty()) continue;
    for (const std::string& input : inputs) {
      if (!would_overwrite(*report, input)) continue;
      throw InputError({.file = *report}, "a report would overwrite this file, which is an input");
    }
  }
}

namespace {

// Of a pipe that nobody reads: none, in place of a wait.
int open_to_write(const std::string& path, int flags) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | flags, 0666);
}

bool is_pipe(const std::string& path) {
  std::error_code error;
  return fs::is_fifo(path, error);
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return true;
}

}  // namespace

void require_writable(const std::string& path) {
  if (is_pipe(path)) return;  // its reader would take the end of this for the end of the report
  const int file = open_to_write(path, O_APPEND);  // an existing file keeps its bytes
  require(file >= 0, path);
  close(file);
}

void write_report_file(const std::string& path, std::string_view text) {
  const int file = open_to_write(path, O_TRUNC);
  require(file >= 0, path);
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  const bool is_written = write_all(file, text);
  require(close(file) == 0 && is_written, path);
}

}  // namespace dcp
