// Random scenarios, every strategy. A failing one is shrunk and printed as YAML.
#include <gtest/gtest.h>

#include <functional>

#include "comm/simulated/host_world.hpp"
#include "core/scenario_reader.hpp"
#include "harness/step_runner.hpp"
#include "strategies/registry.hpp"
#include "tests/harness/random_scenario.hpp"

namespace dcp {
namespace {

constexpr std::uint64_t kNumScenarios = 500;

// What went wrong with a scenario under one strategy; "" for nothing.
std::string first_problem(const ScenarioReport& report) {
  if (!report.bad_input.empty()) return report.bad_input;
  for (const StepReport& step : report.steps) {
    if (!step.problems.empty()) {
      return "step " + std::to_string(step.index) + ": " + step.problems.front();
    }
  }
  return "";
}

std::string problem_of(const RandomScenario& scenario) {
  const Scenario parsed = parse_scenario("random.yaml", scenario.yaml());
  for (const Strategy* strategy : all_strategies()) {
    // Steps that are pending together run in an order that differs from scenario to scenario.
    const auto order = static_cast<std::uint64_t>(scenario.data_seed);
    const std::string problem = first_problem(run_scenario(parsed, *strategy, {.seed = order}));
    if (!problem.empty()) return std::string(strategy->name()) + ": " + problem;
  }
  return "";
}

RandomScenario shrunk(RandomScenario failing,
                      const std::function<bool(const RandomScenario&)>& still_fails) {
  for (bool progress = true; progress;) {
    progress = false;
    for (RandomScenario& candidate : simpler(failing)) {
      if (!still_fails(candidate)) continue;
      failing = std::move(candidate);
      progress = true;
      break;
    }
  }
  return failing;
}

// The last layer's outputs of every computing step, bit for bit.
std::vector<std::vector<float>> outputs_of(const Scenario& scenario, const Strategy& strategy,
                                           std::uint64_t order_seed) {
  std::vector<std::vector<float>> outputs;
  HostWorld world(scenario.world_size, order_seed, scenario.graph.ubatches);
  Engine engine(scenario, strategy, world);
  if (scenario.workspace.policy == WorkspacePolicy::kGrowable) {
    engine.grow_workspace(engine.capacity().max_num_tokens);
  }
  for (const std::int64_t rows : capture_sizes(scenario)) {
    engine.capture("g" + std::to_string(rows), rows);
  }
  for (const Batch& batch : scenario.batches) {
    const StepRun run = engine.replay(batch, "", 1);
    for (const RankLayerValues& rank : engine.read_layer(run, scenario.layers - 1).ranks) {
      outputs.push_back(rank.out);
      outputs.push_back(rank.lse);
    }
  }
  return outputs;
}

TEST(Properties, RandomScenariosMatchTheReferenceUnderEveryStrategy) {
  for (std::uint64_t seed = 1; seed <= kNumScenarios; ++seed) {
    const RandomScenario scenario = make_random_scenario(seed);
    if (problem_of(scenario).empty()) continue;
    const RandomScenario smallest =
        shrunk(scenario, [](const RandomScenario& s) { return !problem_of(s).empty(); });
    FAIL() << "seed " << seed << ", " << problem_of(smallest) << "\n" << smallest.yaml();
  }
}

TEST(Properties, TheOrderOfUnorderedWorkChangesNoBit) {
  for (std::uint64_t seed = 1; seed <= kNumScenarios; seed += 10) {
    const RandomScenario random = make_random_scenario(seed);
    const Scenario scenario = parse_scenario("random.yaml", random.yaml());
    for (const Strategy* strategy : all_strategies()) {
      const auto first = outputs_of(scenario, *strategy, 0);
      for (std::uint64_t order = 1; order < 20; ++order) {
        ASSERT_EQ(outputs_of(scenario, *strategy, order), first)
            << strategy->name() << ", order seed " << order << "\n"
            << random.yaml();
      }
    }
  }
}

}  // namespace
}  // namespace dcp
