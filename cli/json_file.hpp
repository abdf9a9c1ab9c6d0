// JSON reports: how each starts, and how it reaches its file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "comm/make_world.hpp"

namespace dcp {

// {"schema_version": 1, "tool": {"name", "version"}}: the head of every report.
nlohmann::ordered_json report_head();

// The same of what ran on a backend: also "backend", "comm", and of the machine "gpu", "driver" and
// "nccl", null where there is none.
nlohmann::ordered_json report_head(const BackendChoice& choice);

// Writes `report` to `path`, indented. Throws InputError where the file cannot be written.
void write_json_file(const std::string& path, const nlohmann::ordered_json& report);

}  // namespace dcp
