#include "cli/json_file.hpp"

#include <fstream>

#include "core/error.hpp"

namespace dcp {

nlohmann::ordered_json report_head() {
  return {{"schema_version", 1}, {"tool", {{"name", "dcpsim"}, {"version", DCPSIM_VERSION}}}};
}

void write_json_file(const std::string& path, const nlohmann::ordered_json& report) {
  std::ofstream file(path);
  file << report.dump(2) << '\n';
  file.close();
  if (!file) throw InputError({.file = path}, "cannot write this file");
}

}  // namespace dcp
