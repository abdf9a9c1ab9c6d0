// The command line, parsed and validated before anything runs. Everything that is wrong with it is
// an InputError placed at "dcpsim": one line, exit code 2.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/make_world.hpp"
#include "core/scenario_reader.hpp"

namespace dcp {

struct Options;

// One command of the program. `run` returns the exit code.
struct Command {
  std::string_view name;
  std::string_view help;
  bool takes_paths;  // then at least one path is required
  int (*run)(const Options&);
  // Scenario options that mean nothing to it. With none named: nothing is refused where there are
  // paths, and everything where there are none.
  std::span<const std::string_view> refused = {};
};

struct Options {
  const Command* command = nullptr;     // null only with show_help or show_version
  std::vector<std::string> paths;       // files and folders; they exist
  BackendChoice backend;                // one that this build and machine have
  std::vector<std::string> strategies;  // registered names, none twice; empty: the scenario's own
  std::vector<Override> overrides;      // --set, in order
  std::optional<std::uint64_t> seed;    // of the schedule
  std::string schedule;                 // as make_schedule; empty: uniform
  std::string json_path;                // empty: no report; so for the next three
  std::string junit_path;
  std::string trace_path;
  std::string dump_path;  // a folder
  std::string dot_path;
  std::string html_path;
  std::string graph_path;  // read, not written: a record of another program's graphs; "": none
  int jobs = 1;            // scenarios at a time, >= 1; default: one for each core
  std::string filter;      // glob for scenarios; empty: all
  bool color = false;      // stdout takes colour
  bool progress = false;   // stderr is a terminal that may show what is running
  bool verbose = false;
  bool show_help = false;
  bool show_version = false;
};

// Parses the arguments (without the program's name). `strategies` are the registered names.
Options parse_command_line(const std::vector<std::string>& arguments,
                           std::span<const Command> commands,
                           std::span<const std::string_view> strategies);

// What `--help` prints.
std::string help_text(std::span<const Command> commands);

// Colour goes to terminals only, and NO_COLOR set to anything but "" forbids it (no-color.org).
// `no_color_variable` is null where the variable is not set.
bool wants_color(bool forbidden, const char* no_color_variable, bool is_terminal);

}  // namespace dcp
