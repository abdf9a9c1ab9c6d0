// Holds the simulator against a GPU: plays programs of runtime calls on both and prints where they
// differ, each difference once, with the smallest program that shows it. See docs/CONFORMANCE.md.
#include <boost/program_options.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>

#include "comm/make_world.hpp"
#include "tests/conformance/difference.hpp"

namespace {

using namespace dcp;
using namespace dcp::conformance;
namespace po = boost::program_options;

struct Options {
  std::uint64_t first = 1;
  std::uint64_t last = 1000;
  Backend backend = Backend::kCuda;
  bool shrinks = true;
};

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument("--seeds takes A-B, two numbers, not '" + std::string(text) + "'");
  }
  return value;
}

// Nothing where only the usage was asked for.
std::optional<Options> read_options(int argc, char** argv) {
  std::string seeds;
  std::string backend;
  po::options_description options("usage: conformance [--seeds A-B] [--backend cuda|host]");
  options.add_options()("seeds", po::value(&seeds)->default_value("1-1000"), "programs to play")(
      "backend", po::value(&backend)->default_value("cuda"),
      "what the simulator is held against; host: itself, with another schedule")(
      "no-shrink", "print programs as they were drawn")("help", "print this");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, options), values);
  po::notify(values);
  if (values.count("help") > 0) {
    std::cout << options;
    return std::nullopt;
  }
  if (backend != "cuda" && backend != "host") {
    throw std::invalid_argument("--backend is cuda or host, not '" + backend + "'");
  }
  const std::string_view range = seeds;
  const auto dash = range.find('-');
  Options read;
  read.first = number(range.substr(0, dash));
  read.last = dash == std::string_view::npos ? read.first : number(range.substr(dash + 1));
  read.backend = backend == "cuda" ? Backend::kCuda : Backend::kHost;
  read.shrinks = values.count("no-shrink") == 0;
  return read;
}

struct Summary {
  std::map<std::string, int> known;
  std::map<std::string, int> unknown;
  std::size_t num_calls = 0;
};

// Plays one program; prints a difference that is the first of its kind.
void play(std::uint64_t seed, const Options& options, const MakeWorld& make_other,
          Summary& summary) {
  const Played played = generate(seed);
  summary.num_calls += played.program.calls.size();
  const auto difference = compare(played, make_other);
  if (!difference) return;
  auto& counts = is_known(*difference) ? summary.known : summary.unknown;
  if (++counts[difference->kind] > 1) return;
  std::cout << "seed " << seed << ": " << difference->kind << "\n";
  Played small = played;
  if (options.shrinks) small = shrink(played, difference->kind, make_other);
  const auto still = compare(small, make_other);  // nothing where it does not always show
  std::cout << (still ? text(small, *still) : text(played, *difference)) << std::flush;
}

void print(const char* what, const std::map<std::string, int>& counts) {
  for (const auto& [kind, count] : counts) {
    std::cout << what << " difference in " << count << " programs: " << kind << "\n";
  }
}

int run(const Options& options) {
  std::string why;
  const BackendChoice choice{.backend = options.backend};
  if (!has_backend(choice, why)) {
    std::cerr << "conformance: " << why << "\n";
    return 2;
  }
  const MakeWorld make_other = [&] {
    return make_world({.backend = choice,
                       .world_size = 1,
                       .num_communicators = kNumCommunicators,
                       .seed = options.last});
  };
  Summary summary;
  for (std::uint64_t seed = options.first; seed <= options.last; ++seed) {
    try {
      play(seed, options, make_other, summary);
    } catch (const std::exception& error) {  // such as a GPU that stopped: no later one can run
      std::cout << "seed " << seed << ": " << error.what() << "\n";
      for (const Call& call : generate(seed).program.calls) std::cout << "  " << text(call) << "\n";
      ++summary.unknown["the backend stopped"];
      break;
    }
  }
  std::cout << options.last - options.first + 1 << " programs, " << summary.num_calls
            << " calls, simulator against " << comm_name(choice) << "\n";
  print("known", summary.known);
  print("unknown", summary.unknown);
  return summary.unknown.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = read_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const std::exception& error) {
    std::cerr << "conformance: " << error.what() << "\n";
    return 2;
  }
}
