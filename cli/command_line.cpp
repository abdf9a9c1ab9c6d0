#include "cli/command_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <charconv>
#include <concepts>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>
#include <thread>

#include "core/error.hpp"
#include "core/spelling.hpp"
#include "runtime/host/schedules/make_schedule.hpp"

namespace dcp {
namespace {

namespace po = boost::program_options;

[[noreturn]] void refuse(std::string_view message) {
  throw InputError({.file = "dcpsim"}, message);
}

std::string in_quotes(std::string_view word) { return std::string("'").append(word).append("'"); }

// Options that say how scenarios are run; only commands that take paths have them.
po::options_description scenario_options() {
  po::options_description options("Options of commands that take a PATH", 100);
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  const auto list = [](const char* name) {
    return po::value<std::vector<std::string>>()->value_name(name);
  };
  auto option = options.add_options();
  option("backend", text("host|cuda"), "where to run (host)");
  option("comm", text("nccl|symmetric"), "how ranks of the cuda backend exchange (symmetric)");
  option("wait-bound", text("MS"),
         "how long a rank of the cuda backend waits for another (5000; nccl: 60000)");
  option("strategy", list("NAME,...|all"), "strategies to run instead of the scenario's");
  option("set", list("KEY=VALUE"), "override a scenario key, e.g. graph.ubatches=2; repeatable");
  option("seed", text("N"), "seed of the schedule; data has data.seed");
  option("schedule", text("NAME|TEXT"),
         "earliest, latest, uniform, pct or pos, or one that was written down (uniform)");
  option("jobs", text("N"), "scenarios to run at a time (number of cores)");
  option("filter", text("GLOB"), "only scenarios whose file or name matches");
  option("junit", text("FILE"), "also write the result as JUnit XML");
  option("trace", text("FILE"), "write what ran when as Chrome trace events; one scenario only");
  option("dump", text("DIR"), "write every tensor of every computing step as safetensors");
  option("dot", text("FILE"), "audit: write the graphs for graphviz; one scenario only");
  option("html", text("FILE"), "audit: write one page of graphs, memory and findings; likewise");
  option("graph", text("FILE"), "audit: graphs of another program in place of a PATH");
  return options;
}

po::options_description general_options() {
  po::options_description options("Options", 100);
  auto option = options.add_options();
  option("json", po::value<std::string>()->value_name("FILE"), "also write the result as JSON");
  option("no-color", "plain output: no colour (also NO_COLOR=1), no progress line");
  option("verbose", "say more");
  option("help,h", "this text");
  option("version", "version of the program");
  return options;
}

po::options_description all_options() {
  po::options_description options;
  return options.add(scenario_options()).add(general_options());
}

// `token` is as written, perhaps with "=value".
[[noreturn]] void refuse_unknown_option(const std::string& token) {
  const std::string written = token.substr(0, token.find('='));
  const po::options_description known = all_options();
  std::vector<std::string> names;
  for (const auto& option : known.options()) names.push_back("--" + option->long_name());
  const std::vector<std::string_view> views(names.begin(), names.end());
  refuse("unknown option " + in_quotes(written) + did_you_mean(written, views));
}

// Words that are not options come back under "word".
po::variables_map parse_words(const std::vector<std::string>& arguments) {
  po::options_description options = all_options();
  options.add_options()("word", po::value<std::vector<std::string>>());
  po::positional_options_description words;
  words.add("word", -1);
  // Without allow_guessing: a prefix of an option is not that option.
  const int style = po::command_line_style::unix_style &
                    ~static_cast<int>(po::command_line_style::allow_guessing);
  po::variables_map values;
  try {
    po::store(
        po::command_line_parser(arguments).options(options).positional(words).style(style).run(),
        values);
  } catch (const po::unknown_option& error) {
    refuse_unknown_option(error.get_option_name());
  } catch (const po::error& error) {
    refuse(error.what());
  }
  return values;
}

std::string text_of(const po::variables_map& values, const char* option) {
  return values.count(option) == 0 ? std::string() : values[option].as<std::string>();
}

std::string text_not_empty(const po::variables_map& values, const char* option,
                           std::string_view what) {
  const std::string text = text_of(values, option);
  if (values.count(option) != 0 && text.empty()) {
    refuse("'--" + std::string(option) + "' needs " + std::string(what));
  }
  return text;
}

std::vector<std::string> list_of(const po::variables_map& values, const char* option) {
  if (values.count(option) == 0) return {};
  return values[option].as<std::vector<std::string>>();
}

template <std::integral T>
T number(std::string_view option, const std::string& text, T minimum) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < minimum) {
    refuse(in_quotes(option) + " takes a whole number from " + std::to_string(minimum) + " to " +
           std::to_string(std::numeric_limits<T>::max()) + ", not " + in_quotes(text));
  }
  return value;
}

void require_one_of(std::string_view option, const std::string& word,
                    std::span<const std::string_view> known) {
  if (std::ranges::find(known, word) != known.end()) return;
  refuse("unknown value " + in_quotes(word) + " of " + in_quotes(option) +
         did_you_mean(word, known));
}

// A backend that this build or this machine has not is refused here, before anything runs.
BackendChoice backend_of(const po::variables_map& values) {
  constexpr std::array<std::string_view, 2> kBackends = {"host", "cuda"};
  constexpr std::array<std::string_view, 2> kComms = {"symmetric", "nccl"};
  BackendChoice choice;
  if (values.count("backend") != 0) {
    const std::string backend = text_of(values, "backend");
    require_one_of("--backend", backend, kBackends);
    if (backend == "cuda") choice.backend = Backend::kCuda;
  }
  if (values.count("comm") != 0) {
    const std::string comm = text_of(values, "comm");
    require_one_of("--comm", comm, kComms);
    if (choice.backend == Backend::kHost) {
      refuse("'--comm' needs '--backend cuda'; the host backend simulates its collectives");
    }
    if (comm == "nccl") choice.comm = CommKind::kNccl;
  }
  if (values.count("wait-bound") != 0) {
    choice.wait_bound_ms = number<std::int32_t>("--wait-bound", text_of(values, "wait-bound"), 1);
    if (choice.backend == Backend::kHost) {
      refuse("'--wait-bound' needs '--backend cuda'; the simulator sees when nothing can go on");
    }
  }
  std::string why;
  if (!has_backend(choice, why)) refuse(why + "; 'dcpsim doctor' says what this machine has");
  return choice;
}

std::vector<std::string> strategies_of(const po::variables_map& values,
                                       std::span<const std::string_view> known) {
  std::vector<std::string> chosen;
  const auto choose = [&chosen](std::string_view name) {
    if (std::ranges::find(chosen, name) == chosen.end()) chosen.emplace_back(name);
  };
  for (const std::string& list : list_of(values, "strategy")) {
    std::istringstream names(list + ",");  // the comma makes an empty last name visible
    for (std::string name; std::getline(names, name, ',');) {
      if (name == "all") {
        std::ranges::for_each(known, choose);
        continue;
      }
      require_one_of("--strategy", name, known);
      choose(name);
    }
  }
  return chosen;
}

std::string schedule_of(const po::variables_map& values, const BackendChoice& backend) {
  if (values.count("schedule") == 0) return {};
  const std::string schedule = text_of(values, "schedule");
  if (!is_schedule(schedule)) {
    refuse("unknown value " + in_quotes(schedule) + " of '--schedule'" +
           did_you_mean(schedule, kScheduleNames));
  }
  if (backend.backend != Backend::kHost) refuse("'--schedule' needs the host backend");
  return schedule;
}

std::vector<Override> overrides_of(const po::variables_map& values) {
  std::vector<Override> overrides;
  for (const std::string& text : list_of(values, "set")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse("'--set' takes KEY=VALUE, not " + in_quotes(text));
    }
    overrides.push_back({.key = text.substr(0, equals), .value = text.substr(equals + 1)});
  }
  return overrides;
}

const Command& command_of(const std::string& word, std::span<const Command> commands) {
  const auto found = std::ranges::find(commands, word, &Command::name);
  if (found != commands.end()) return *found;
  std::vector<std::string_view> names;
  for (const Command& command : commands) names.push_back(command.name);
  refuse("unknown command " + in_quotes(word) + did_you_mean(word, names) +
         "; 'dcpsim --help' lists them");
}

void require_fitting(const Options& options, const po::variables_map& values) {
  const std::string command = in_quotes(options.command->name);
  if (options.command->takes_paths) {
    const bool has_graph = values.count("graph") != 0;
    if (options.paths.empty() && !has_graph) refuse(command + " needs a PATH: a file or a folder");
    if (!options.paths.empty() && has_graph) refuse("'--graph' stands in the place of a PATH");
    for (const std::string& path : options.paths) {
      std::error_code error;  // of a loop of links, say: the file's reader tells it
      const auto type = std::filesystem::symlink_status(path, error).type();
      if (type != std::filesystem::file_type::not_found) continue;
      refuse("no such file or folder: " + in_quotes(path));
    }
  } else if (!options.paths.empty()) {
    refuse(command + " takes no PATH, but got " + in_quotes(options.paths.front()));
  }
  const po::options_description known = scenario_options();
  const auto& refused = options.command->refused;
  for (const auto& option : known.options()) {
    const bool applies = (options.command->takes_paths || !refused.empty()) &&
                         std::ranges::find(refused, option->long_name()) == refused.end();
    if (applies || values.count(option->long_name()) == 0) continue;
    refuse("'--" + option->long_name() + "' does not apply to " + command);
  }
}

// Reports would overwrite each other, or a folder would stand where a file should.
void take_report_paths(const po::variables_map& values, Options& options) {
  std::map<std::string, std::string> used;
  const auto take = [&](const char* option, std::string& path) {
    if (values.count(option) == 0) return;
    path = text_of(values, option);
    const std::string written = std::string("--") + option;
    if (path.empty()) refuse(in_quotes(written) + " needs a name");
    const auto [other, is_new] = used.emplace(path, written);
    if (!is_new) {
      refuse(in_quotes(other->second) + " and " + in_quotes(written) +
             " name the same place: " + in_quotes(path));
    }
  };
  take("json", options.json_path);
  take("junit", options.junit_path);
  take("trace", options.trace_path);
  take("dump", options.dump_path);
  take("dot", options.dot_path);
  take("html", options.html_path);
}

}  // namespace

Options parse_command_line(const std::vector<std::string>& arguments,
                           std::span<const Command> commands,
                           std::span<const std::string_view> strategies) {
  const po::variables_map values = parse_words(arguments);
  Options options;
  options.show_help = values.count("help") != 0;
  options.show_version = values.count("version") != 0;
  if (options.show_help || options.show_version) return options;

  std::vector<std::string> words = list_of(values, "word");
  if (words.empty()) refuse("no command; 'dcpsim --help' lists them");
  options.command = &command_of(words.front(), commands);
  options.paths.assign(words.begin() + 1, words.end());
  require_fitting(options, values);

  options.backend = backend_of(values);
  options.strategies = strategies_of(values, strategies);
  options.overrides = overrides_of(values);
  if (values.count("seed") != 0) {
    options.seed = number<std::uint64_t>("--seed", text_of(values, "seed"), 0);
  }
  options.schedule = schedule_of(values, options.backend);
  options.jobs = values.count("jobs") != 0
                     ? number("--jobs", text_of(values, "jobs"), 1)
                     : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // On the GPU ranks wait for each other while they run: two scenarios there at a time could keep
  // each other's ranks from running.
  if (options.backend.backend == Backend::kCuda) options.jobs = 1;
  take_report_paths(values, options);
  options.filter = text_not_empty(values, "filter", "a pattern");
  options.graph_path = text_not_empty(values, "graph", "a name");
  options.verbose = values.count("verbose") != 0;
  options.color = wants_color(values.count("no-color") != 0, std::getenv("NO_COLOR"),
                              isatty(STDOUT_FILENO) != 0);
  options.progress = values.count("no-color") == 0 && isatty(STDERR_FILENO) != 0;
  return options;
}

std::string help_text(std::span<const Command> commands) {
  std::ostringstream text;
  text << "Simulates LLM decode steps under decode context parallelism and checks them.\n\n"
          "Usage: dcpsim COMMAND [PATH...] [OPTION...]\n\nCommands:\n";
  for (const Command& command : commands) {
    const std::string usage = std::string(command.name) + (command.takes_paths ? " PATH..." : "");
    text << "  " << usage << std::string(17 - std::min<std::size_t>(usage.size(), 16), ' ')
         << command.help << '\n';
  }
  text << '\n' << scenario_options() << '\n' << general_options();
  text << "\nExit code 0: all as expected; 1: something fell short; 2: bad input or usage, or a\n"
          "backend that is not there.\n";
  return text.str();
}

bool wants_color(bool forbidden, const char* no_color_variable, bool is_terminal) {
  const bool refused = no_color_variable != nullptr && *no_color_variable != '\0';
  return is_terminal && !forbidden && !refused;
}

}  // namespace dcp
