// The program dcpsim. Exit code 2 is for what was asked wrongly; commands return 0 or 1.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/report_file.hpp"
#include "comm/process_group.hpp"
#include "core/error.hpp"
#include "core/printable_text.hpp"
#include "strategies/registry.hpp"

namespace {

// Every process of a run finds the same; the first one reports it.
void be_quiet(dcp::Options& options) {
  if (std::freopen("/dev/null", "w", stdout) == nullptr) return;
  options.progress = false;
  for (std::string* path : {&options.json_path, &options.junit_path, &options.trace_path,
                            &options.dump_path, &options.dot_path, &options.html_path}) {
    path->clear();
  }
}

int run_program(const std::vector<std::string>& arguments) {
  std::vector<std::string_view> strategies;
  for (const dcp::Strategy* strategy : dcp::all_strategies())
    strategies.push_back(strategy->name());

  dcp::Options options = dcp::parse_command_line(arguments, dcp::all_commands(), strategies);
  if (options.show_help) {
    std::cout << dcp::help_text(dcp::all_commands());
    return 0;
  }
  if (options.show_version) {
    std::cout << "dcpsim " DCPSIM_VERSION "\n";
    return 0;
  }
  if (options.backend.comm == dcp::CommKind::kNccl && dcp::ProcessGroup::get().rank() > 0) {
    be_quiet(options);
  }
  dcp::require_no_input_is_overwritten(options);
  return options.command->run(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int exit_code = run_program({argv + 1, argv + argc});
    std::cout.flush();
    if (!std::cout) throw dcp::InputError({.file = "dcpsim"}, "cannot write to standard output");
    return exit_code;
  } catch (const dcp::InputError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dcpsim: internal error: " << dcp::printable_text(error.what()) << '\n';
    return 1;
  }
}
