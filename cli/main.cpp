// The program dcpsim. Exit code 2 is for what was asked wrongly; commands return 0 or 1.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/processes.hpp"
#include "cli/report_file.hpp"
#include "core/error.hpp"
#include "core/printable_text.hpp"
#include "strategies/registry.hpp"

namespace {

constexpr std::string_view kOutOfMemory = "dcpsim: error: this machine's memory does not hold it\n";

int exit_code_of(const std::function<int()>& program) {
  try {
    const int exit_code = program();
    std::cout.flush();
    if (!std::cout) throw dcp::InputError({.file = "dcpsim"}, "cannot write to standard output");
    return exit_code;
  } catch (const dcp::InputError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr << kOutOfMemory;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dcpsim: internal error: " << dcp::printable_text(error.what()) << '\n';
    return 1;
  }
}

int carry_out(const dcp::Options& options) {
  dcp::require_no_input_is_overwritten(options);
  return options.command->run(options);
}

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
  if (options.backend.comm != dcp::CommKind::kNccl) return carry_out(options);
  dcp::run_in_processes(options, [](const dcp::Options& of_process) {
    return exit_code_of([&] { return carry_out(of_process); });
  });
}

// A destructor that needs memory, where there is none left, ends the program on its way to main.
[[noreturn]] void end_without_unwinding() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    std::fwrite(kOutOfMemory.data(), 1, kOutOfMemory.size(), stderr);
    std::_Exit(2);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dcpsim: internal error, without a way back: %s\n", error.what());
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_without_unwinding);
  return exit_code_of([&] { return run_program({argv + 1, argv + argc}); });
}
