// Replays a scenario's graphs in many orders and holds all to the same bits, which are held to the
// reference once. See docs/EXPLORATION.md.
#include <boost/program_options.hpp>
#include <charconv>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <unordered_set>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "harness/step_checker.hpp"
#include "runtime/host/schedules/make_schedule.hpp"
#include "runtime/host/schedules/written_schedule.hpp"
#include "strategies/registry.hpp"

namespace {

using namespace dcp;
namespace po = boost::program_options;

struct Options {
  std::string file;
  std::string strategy = "direct";
  std::vector<Override> overrides;
  std::vector<std::string> schedules;
  std::uint64_t first = 1;
  std::uint64_t last = 1000;
  MemoryOrder order;
};

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument("--seeds takes A-B, two numbers, not '" + std::string(text) + "'");
  }
  return value;
}

void take_seeds(std::string_view range, Options& options) {
  const auto dash = range.find('-');
  options.first = number(range.substr(0, dash));
  options.last = dash == std::string_view::npos ? options.first : number(range.substr(dash + 1));
  if (options.last < options.first) throw std::invalid_argument("--seeds A-B needs A <= B");
}

void take_order(const std::string& without, Options& options) {
  if (without != "" && without != "release" && without != "acquire") {
    throw std::invalid_argument("--without is release or acquire, not '" + without + "'");
  }
  options.order = {.release = without != "release", .acquire = without != "acquire"};
}

// Nothing where only the usage was asked for.
std::optional<Options> read_options(int argc, char** argv) {
  Options read;
  std::string seeds;
  std::string without;
  std::vector<std::string> sets;
  po::options_description options("usage: explore SCENARIO [option...]");
  options.add_options()("seeds", po::value(&seeds)->default_value("1-1000"),
                        "one interleaving for each")(
      "schedule", po::value(&read.schedules),
      "earliest, latest, uniform, pct or pos; repeatable, then in turn (the last three)")(
      "strategy", po::value(&read.strategy), "how partials are combined (direct)")(
      "set", po::value(&sets), "override a scenario key, as KEY=VALUE; repeatable")(
      "without", po::value(&without), "release or acquire: what the memory model does not keep")(
      "scenario", po::value(&read.file))("help", "print this");
  po::positional_options_description words;
  words.add("scenario", 1);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(options).positional(words).run(), values);
  po::notify(values);
  if (values.count("help") > 0) {
    std::cout << options;
    return std::nullopt;
  }
  if (read.file.empty()) throw std::invalid_argument("needs a SCENARIO");
  if (find_strategy(read.strategy) == nullptr) {
    throw std::invalid_argument("no strategy '" + read.strategy + "'");
  }
  if (read.schedules.empty()) read.schedules = {"uniform", "pct", "pos"};
  for (const std::string& name : read.schedules) {
    if (!is_schedule(name)) throw std::invalid_argument("no schedule '" + name + "'");
  }
  take_seeds(seeds, read);
  take_order(without, read);
  for (const std::string& set : sets) {
    const auto equals = set.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("--set takes KEY=VALUE");
    read.overrides.push_back({.key = set.substr(0, equals), .value = set.substr(equals + 1)});
  }
  return read;
}

// The engine with all its graphs, and what its replays leave.
class Explorer {
 public:
  Explorer(const Scenario& scenario, const Options& options)
      : scenario_(scenario),
        options_(options),
        strategy_(*find_strategy(options.strategy)),
        world_(scenario.world_size, 0, scenario.graph.ubatches),
        engine_(scenario, strategy_, world_),
        checker_(scenario, strategy_, {}) {
    for (const std::int64_t rows : capture_sizes(scenario)) {
      engine_.capture("g" + std::to_string(rows), rows);
    }
  }

  // Every batch as it should be, held to the reference.
  void find_right_bits() {
    for (const Batch& batch : scenario_.batches) {
      CheckedStep step{.run = engine_.replay(batch, "", 1),
                       .batch = batch,
                       .expect = {},
                       .names = {batch.name},
                       .stubbed = false};
      StepReport report;
      checker_.check(engine_, step, report);
      if (!report.problems.empty()) throw Failure("mismatch", -1, report.problems.front());
      right_.push_back(bits_of(step.run));
    }
  }

  // One interleaving; "" or what is wrong with it, and then the schedule as text.
  std::string explore(const std::string& name, std::uint64_t seed) {
    const auto schedule = make_schedule(name, seed);
    RecordedSchedule recorded(*schedule);
    const std::size_t which = seed % scenario_.batches.size();
    world_.keep(options_.order);
    world_.follow(&recorded);
    std::string problem;
    try {
      const StepRun run = engine_.replay(scenario_.batches[which], "", 1);
      world_.follow(nullptr);
      if (bits_of(run) != right_[which]) problem = "other bits";
    } catch (const Failure& failure) {
      problem = failure.kind() + ": " + failure.why();
    }
    world_.follow(nullptr);
    if (!problem.empty()) problem += "\n  as it was: --schedule " + text_of(recorded.decisions());
    num_decisions_ += recorded.decisions().size();
    seen_.insert(std::hash<std::string>()(name + text_of(recorded.decisions())));
    return problem;
  }

  std::size_t num_different() const { return seen_.size(); }
  std::size_t num_decisions() const { return num_decisions_; }

 private:
  std::vector<std::byte> bits_of(const StepRun& run) const {
    std::vector<std::byte> bytes;
    for (int layer = 0; layer < scenario_.layers; ++layer) {
      for (const RankLayerBits& rank : engine_.read_layer_bits(run, layer).ranks) {
        bytes.insert(bytes.end(), rank.out.bytes.begin(), rank.out.bytes.end());
        if (rank.lse) bytes.insert(bytes.end(), rank.lse->bytes.begin(), rank.lse->bytes.end());
      }
    }
    return bytes;
  }

  const Scenario& scenario_;
  const Options& options_;
  const Strategy& strategy_;
  HostWorld world_;
  Engine engine_;
  StepChecker checker_;
  std::vector<std::vector<std::byte>> right_;  // by batch
  std::unordered_set<std::size_t> seen_;
  std::size_t num_decisions_ = 0;
};

int run(const Options& options) {
  const Scenario scenario = read_scenario(options.file, options.overrides);
  require_supported(scenario);
  const auto begin = std::chrono::steady_clock::now();
  Explorer explorer(scenario, options);
  explorer.find_right_bits();
  std::map<std::string, std::uint64_t> wrong;
  std::uint64_t num_wrong = 0;
  for (std::uint64_t seed = options.first; seed <= options.last; ++seed) {
    const std::string& name = options.schedules[seed % options.schedules.size()];
    const std::string problem = explorer.explore(name, seed);
    if (problem.empty()) continue;
    ++num_wrong;
    if (++wrong[problem.substr(0, problem.find_first_of(":\n"))] > 1) continue;
    std::cout << "seed " << seed << ", schedule " << name << ": " << problem << '\n';
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const std::uint64_t count = options.last - options.first + 1;
  std::cout << count << " interleavings, " << explorer.num_different() << " of them different, "
            << explorer.num_decisions() / count << " decisions each, " << num_wrong << " wrong, "
            << seconds.count() << " s\n";
  for (const auto& [kind, times] : wrong) std::cout << "  " << kind << ": " << times << '\n';
  return num_wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = read_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const InputError& error) {
    std::cerr << error.what() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "explore: " << error.what() << '\n';
  }
  return 2;
}
