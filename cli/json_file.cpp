#include "cli/json_file.hpp"

#include "cli/report_file.hpp"

namespace dcp {

nlohmann::ordered_json report_head() {
  return {{"schema_version", 1}, {"tool", {{"name", "dcpsim"}, {"version", DCPSIM_VERSION}}}};
}

void write_json_file(const std::string& path, const nlohmann::ordered_json& report) {
  // File names may hold bytes that are no text: JSON gets U+FFFD for them.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  write_report_file(path, report.dump(2, ' ', false, kReplace) + '\n');
}

}  // namespace dcp
