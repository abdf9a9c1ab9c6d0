// The program dcpsim. Exit code 2 is for what was asked wrongly; commands return 0 or 1.
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/printable_text.hpp"
#include "strategies/registry.hpp"

namespace {

int run_program(const std::vector<std::string>& arguments) {
  std::vector<std::string_view> strategies;
  for (const dcp::Strategy* strategy : dcp::all_strategies())
    strategies.push_back(strategy->name());

  const dcp::Options options = dcp::parse_command_line(arguments, dcp::all_commands(), strategies);
  if (options.show_help) {
    std::cout << dcp::help_text(dcp::all_commands());
    return 0;
  }
  if (options.show_version) {
    std::cout << "dcpsim " DCPSIM_VERSION "\n";
    return 0;
  }
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
