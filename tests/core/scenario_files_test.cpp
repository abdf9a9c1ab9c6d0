// The scenario files of the repository, and what becomes of them when bytes are damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "core/scenario_reader.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;

const fs::path kScenarios = fs::path(DCPSIM_SOURCE_DIR) / "scenarios";

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_rejected(const fs::path& file) { return file.parent_path().filename() == "rejected"; }

std::string bytes_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

TEST(ScenarioFiles, RejectedOnesAreRefusedWithTheirTextAndAPlace) {
  const std::vector<fs::path> files = files_below(kScenarios / "rejected");
  ASSERT_GE(files.size(), 35u);
  const std::string prefix = "# error: ";
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.filename());
    const std::string text = bytes_of(file);
    ASSERT_TRUE(text.starts_with(prefix));
    const std::string expected = text.substr(prefix.size(), text.find('\n') - prefix.size());
    ASSERT_FALSE(expected.empty());
    try {
      read_scenario(file.string());
      ADD_FAILURE() << "is read without an error";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
          << "want: " << expected << "\ngot:  " << error.what();
      EXPECT_EQ(error.place().file, file.string());
      EXPECT_GT(error.place().line, 0);
      EXPECT_GT(error.place().column, 0);
    }
  }
}

TEST(ScenarioFiles, OthersAreRead) {
  for (const fs::path& file : files_below(kScenarios)) {
    if (is_rejected(file)) continue;
    SCOPED_TRACE(file);
    EXPECT_NO_THROW(read_scenario(file.string()));
  }
}

TEST(ScenarioFiles, WhatIsNoFileIsRefused) {
  const auto error_of = [](const fs::path& path) -> std::string {
    try {
      read_scenario(path.string());
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const std::string missing = (kScenarios / "no-such-file.yaml").string();
  EXPECT_EQ(error_of(missing), missing + ": error: cannot be read: No such file or directory");
  EXPECT_EQ(error_of(kScenarios), kScenarios.string() + ": error: is a folder, not a file");
  EXPECT_EQ(error_of("/dev/zero"), "/dev/zero: error: is not a regular file");
}

// One scenario with every part of the format, so that damage reaches every reader.
constexpr const char* kEveryPart = R"(schema: 1
about: "Every part: of the format"
world_size: 4
model: {extends: tiny, num_heads: 16, softmax_scale: 0.25}
lse: {base: 2, dtype: fp32}
strategy: [a2a, ag_rs]
direct: {slots: 2, fallback: a2a}
kv_gather: {tokens: 8, dim: 32}
kv: {block_size: 16, dtype: same}
data: {kind: given, lse: [0, -inf, .nan, 1.5e0], out: [1, 2, 3, 4]}
graph: {capture_sizes: [8, 4], ubatches: 2, max_num_tokens: {max_batched_tokens: 9, max_seqs: 4}}
workspace: {policy: growable, need: {8: 100}}
batches:
  short: {seq_lens: [9, 1, 3], query_start_loc: [0, 1, 2, 3], ubatch_starts: [0, 2]}
steps:
  - capture: {graph: g4, rows: 4, batch: short}
  - {replay: short, name: first, rank: 1}
  - stall: {at: wait, until: first}
  - eager: short
    expect:
      out: {0: 1.5}
      hazards: [{kind: pool_alias, rank: 0}]
      by_strategy: {a2a: {same_bits_as: first}}
)";

// Replaces, inserts, removes, doubles or cuts, so that the text stays close to a scenario.
std::string damaged(std::string text, std::mt19937& random) {
  constexpr std::string_view kBytes = "\"'[]{},:-?#&*!|>%@`~0123456789ax \n\t\r\x04\x7F\xC3\xFF\\.";
  const auto below = [&](std::size_t bound) { return random() % std::max<std::size_t>(bound, 1); };
  for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
    const std::size_t at = below(text.size());
    const char byte = kBytes[below(kBytes.size())];
    switch (below(6)) {
      case 0:
        text.insert(at, 1, byte);
        break;
      case 1:
        text.erase(at, 1 + below(4));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), 1 + below(40)));
        break;
      case 3:
        text.resize(at + below(text.size() - at));
        break;
      default:
        if (!text.empty()) text[at] = byte;
    }
  }
  return text;
}

TEST(ScenarioFiles, DamagedOnesAreReadOrRefusedAndNothingElse) {
  std::vector<std::string> texts = {kEveryPart};
  ASSERT_NO_THROW(parse_scenario("every part", kEveryPart));
  for (const fs::path& file : files_below(kScenarios)) texts.push_back(bytes_of(file));
  constexpr std::size_t kRuns = 3000;  // in all, half of them on kEveryPart
  std::mt19937 random(20240229);
  std::size_t num_refused = 0;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::string& original = run % 2 == 0 ? texts[0] : texts[run / 2 % texts.size()];
    const std::string text = damaged(original, random);
    try {
      const Scenario scenario = parse_scenario("damaged", text);
      require_supported(scenario);
    } catch (const InputError& error) {
      ++num_refused;
      ASSERT_EQ(error.place().file, "damaged") << text;
      ASSERT_GT(error.place().line, 0) << error.what() << "\n" << text;
    } catch (const std::exception& error) {
      FAIL() << "run " << run << ": " << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(num_refused, kRuns / 4);
}

}  // namespace
}  // namespace dcp
