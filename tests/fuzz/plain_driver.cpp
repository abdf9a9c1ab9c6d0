// Runs a fuzz target without libFuzzer: the seed corpus as it is, then damaged copies, the same
// ones in every run. An input that ends the program, or takes more than 10 s, is left in a file.
//
// Usage: fuzz_x MAX_SECONDS CRASH_FILE SEED_FILE_OR_FOLDER...
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace {

namespace fs = std::filesystem;

constexpr unsigned kMaxSecondsPerInput = 10;
constexpr std::size_t kMaxInputBytes = std::size_t{1} << 16;  // more seldom finds more, and slower

// For the signal handler.
const std::string* current_input = nullptr;
const char* crash_file = nullptr;

extern "C" void save_input(int signal_number) {
  const int file = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && current_input != nullptr) {
    static_cast<void>(!write(file, current_input->data(), current_input->size()));
  }
  static_cast<void>(!write(STDERR_FILENO, "fuzz: input saved in ", 21));
  static_cast<void>(!write(STDERR_FILENO, crash_file, std::strlen(crash_file)));
  static_cast<void>(!write(STDERR_FILENO, "\n", 1));
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run(const std::string& input) {
  current_input = &input;
  alarm(kMaxSecondsPerInput);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  alarm(0);
}

std::vector<std::string> read_seeds(int count, char** paths) {
  std::vector<fs::path> files;
  for (int i = 0; i < count; ++i) {
    if (!fs::is_directory(paths[i])) {
      files.emplace_back(paths[i]);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(paths[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string next() {
    std::string input = any_seed();
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) edit(input);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % std::max<std::size_t>(bound, 1); }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }

  // A stretch of a seed, often a word or a line.
  std::string piece() {
    const std::string& seed = any_seed();
    const std::size_t begin = below(seed.size());
    return seed.substr(begin, 1 + below(below(3) == 0 ? 64 : 8));
  }

  void edit(std::string& input) {
    constexpr std::string_view kBytes = "{}[]\",:0123456789-.+eE#&*!|>%@`'\\ \t\n\r\0\x80\xC3\xFF";
    constexpr std::string_view kWords[] = {"1e999", "-1",   "18446744073709551616", "null",
                                           "NaN",   "-inf", "9223372036854775807",  "[[[[[[[[",
                                           "{}",    "\"\""};
    const std::size_t at = below(input.size() + 1);
    switch (below(8)) {
      case 0:
        input.insert(at, 1, kBytes[below(kBytes.size())]);
        break;
      case 1:
        input.insert(at, piece());
        break;
      case 2:
        input.insert(at, kWords[below(std::size(kWords))]);
        break;
      case 3:
        input.erase(at, 1 + below(below(4) == 0 ? 256 : 4));
        break;
      case 4:
        input.resize(at);
        break;
      case 5:  // a repeated stretch
        input.insert(at, input.substr(below(input.size()), 1 + below(32)));
        break;
      case 6:
        if (at < input.size()) input[at] = static_cast<char>(random_());
        break;
      default:
        if (at < input.size()) input[at] = kBytes[below(kBytes.size())];
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937 random_{20240229};
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::cerr << "usage: " << arguments[0] << " MAX_SECONDS CRASH_FILE SEED_FILE_OR_FOLDER...\n";
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(std::stoi(arguments[1]));
  crash_file = arguments[2];
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    signal(number, save_input);
  }
  std::vector<std::string> seeds = read_seeds(count - 3, arguments + 3);
  for (const std::string& seed : seeds) run(seed);
  std::erase_if(seeds, [](const std::string& seed) { return seed.size() > kMaxInputBytes; });
  if (seeds.empty()) {
    std::cerr << "fuzz: no seed of at most " << kMaxInputBytes << " bytes\n";
    return 2;
  }
  Mutator mutator(seeds);
  int runs = 0;
  for (; Clock::now() < end; ++runs) run(mutator.next());
  std::cout << seeds.size() << " seeds, " << runs << " damaged inputs\n";
  return 0;
}
