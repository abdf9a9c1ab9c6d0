// `dcpsim doctor`: what this machine can run, and why not the rest.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace dcp {

struct Options;

// One thing that is there or not. `detail` says what was found, or why it was not.
struct Check {
  std::string name;
  bool available = false;
  std::string detail;
};

// Looks at this machine. Libraries are looked up as at run time, with dlopen; nothing is needed.
std::vector<Check> examine_machine();

void print_checks(std::ostream& out, std::span<const Check> checks, bool color);

// {schema_version, tool, checks: [{name, available, detail}]}
nlohmann::ordered_json doctor_report(std::span<const Check> checks);

// Always 0: a missing part is an answer, not an error.
int doctor_command(const Options& options);

}  // namespace dcp
