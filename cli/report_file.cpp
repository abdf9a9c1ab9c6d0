#include "cli/report_file.hpp"

#include <fstream>

#include "core/error.hpp"

namespace dcp {

namespace {

void require(const std::ofstream& file, const std::string& path) {
  if (!file) throw InputError({.file = path}, "cannot write this file");
}

}  // namespace

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
