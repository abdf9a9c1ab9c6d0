// Every scenario of the corpus, under every strategy it names.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/scenario_reader.hpp"
#include "core/step_words.hpp"
#include "harness/scenario_runner.hpp"
#include "harness/schedule_trace.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> corpus() {
  std::vector<std::string> files;
  for (auto entry = fs::recursive_directory_iterator(DCPSIM_SOURCE_DIR "/scenarios");
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->path().filename() == "rejected") entry.disable_recursion_pending();
    if (entry->path().extension() == ".yaml") files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = fs::path(info.param).parent_path().filename().string() + "_" +
                     fs::path(info.param).stem().string();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

std::string problems_of(const ScenarioReport& report) {
  std::string text = report.bad_input;
  for (const StepReport& step : report.steps) {
    for (const std::string& problem : step.problems) {
      text += "step " + std::to_string(step.index) + ": " + problem + "\n";
    }
  }
  return text;
}

class Corpus : public testing::TestWithParam<std::string> {};

// What a scenario expects must hold under any order of what nothing orders.
TEST_P(Corpus, ScenarioPasses) {
  const Scenario scenario = read_scenario(GetParam());
  require_supported(scenario);
  for (const std::string& name : scenario.strategies) {
    const auto expect_pass = [&](const RunOptions& options) {
      const ScenarioReport report = run_scenario(scenario, *find_strategy(name), options);
      EXPECT_EQ(report.status, Status::kPass) << name << ", seed " << options.seed << " "
                                              << options.schedule << ": " << problems_of(report);
    };
    for (std::uint64_t seed = 1; seed <= 8; ++seed) expect_pass({.seed = seed});
    for (const char* schedule : {"earliest", "latest", "pct", "pos"}) {
      expect_pass({.seed = 9, .schedule = schedule});
    }
  }
}

// As `--strategy all` runs it: what makes sense under some strategies only says so.
TEST_P(Corpus, PassesUnderEveryStrategyThatItDoesNotExclude) {
  const Scenario scenario = read_scenario(GetParam());
  require_supported(scenario);
  const auto& only = scenario.only.strategies;
  for (const Strategy* strategy : all_strategies()) {
    if (!only.empty() && std::ranges::find(only, strategy->name()) == only.end()) continue;
    const ScenarioReport report = run_scenario(scenario, *strategy, {});
    EXPECT_EQ(report.status, Status::kPass) << strategy->name() << ": " << problems_of(report);
  }
}

// `skip` and `throw` can name whatever a step enqueues.
TEST_P(Corpus, EveryOperationHasAWord) {
  const Scenario scenario = read_scenario(GetParam());
  for (const std::string& name : scenario.strategies) {
    ScheduleTrace trace;
    run_scenario(scenario, *find_strategy(name), {.trace = &trace});
    for (const TraceEvent& event : trace.events()) {
      if (event.op == "poison_freed" || event.op == "hold") continue;  // the simulator's, no step's
      EXPECT_TRUE(contains(operation_words(), event.op)) << event.op;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Corpus, testing::ValuesIn(corpus()), test_name);

// Equal shards hide a wrong base and a swapped rank.
TEST(CorpusRules, EveryBatchHasUnequalLengths) {
  for (const std::string& file : corpus()) {
    const Scenario scenario = read_scenario(file);
    for (const Batch& batch : scenario.batches) {
      if (batch.seq_lens.size() < 2) continue;
      const std::set<std::int64_t> lengths(batch.seq_lens.begin(), batch.seq_lens.end());
      EXPECT_GT(lengths.size(), 1u) << file << " " << batch.name;
    }
  }
}

}  // namespace
}  // namespace dcp
