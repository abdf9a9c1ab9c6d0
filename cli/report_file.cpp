#include "cli/report_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "cli/command_line.hpp"
#include "core/error.hpp"

namespace dcp {

namespace {

void require(const std::ofstream& file, const std::string& path) {
  if (!file) throw InputError({.file = path}, "cannot write this file");
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

void require_writable(const std::string& path) {
  require(std::ofstream(path, std::ios::app), path);  // an existing file keeps its bytes
}

void write_report_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  require(file, path);
}

}  // namespace dcp
