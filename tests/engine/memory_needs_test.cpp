#include "engine/memory_needs.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "engine/memory_budget.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

TEST(MemoryNeeds, ChecksHoldOneLayerOfAllRanksAndItsRightValues) {
  const Scenario scenario =
      parse_scenario("x", "{world_size: 2, model: tiny, batches: {b: {seq_lens: [5, 3]}}}");
  const StepPlan plan(scenario, *find_strategy("a2a"), 100);
  const StepShape shape = plan.shape(0, 100);
  const double rows = 100.0 * shape.num_heads;
  const double state = rows * (shape.head_dim + 1);
  const double floats = 2 * 2 * state + rows * shape.qk_head_dim + state;
  EXPECT_EQ(check_bytes(scenario, shape), 4 * floats + 8 * state);
}

TEST(MemoryNeeds, AStepsOwnWorkspaceCountsWithWhatItAsksFor) {
  const auto bytes_of = [](const std::string& workspace) {
    const Scenario scenario =
        parse_scenario("x", "{world_size: 2, model: tiny, workspace: " + workspace +
                                ", batches: {b: {seq_lens: [5, 3]}}}");
    return step_bytes(scenario, StepPlan(scenario, *find_strategy("a2a"), 2),
                      {{.first_row = 0, .num_rows = 2}});
  };
  const double used = bytes_of("graph_pool");
  EXPECT_EQ(bytes_of("{policy: graph_pool, need: {2: 0, 3: 900000}}"), used);
  EXPECT_EQ(bytes_of("{policy: fixed, need: {2: 900000}}"), used) << "taken before any step";
  const double more = bytes_of("{policy: graph_pool, need: {2: 900000}}") - used;
  EXPECT_GT(more, 0);
  EXPECT_EQ(bytes_of("{policy: graph_pool, need: {2: 900100}}") - used, more + 2 * 100);
}

TEST(MemoryNeeds, TheRecordOfAGraphCountsNodesOfAllRanksAndPairsOfNodes) {
  const auto bytes_of = [](int world_size, std::size_t num_nodes) {
    const Scenario scenario =
        parse_scenario("x", "{world_size: " + std::to_string(world_size) +
                                ", model: tiny, batches: {b: {seq_lens: [5, 3]}}}");
    return record_bytes(scenario, num_nodes);
  };
  EXPECT_EQ(bytes_of(2, 0), 0);
  const double of_ranks = bytes_of(4, 1000) - bytes_of(2, 1000);
  EXPECT_GT(of_ranks, 2e6);
  EXPECT_EQ(bytes_of(8, 1000) - bytes_of(4, 1000), 2 * of_ranks);
  // Measured: 0.24, 0.58 and 1.60 GB for 8 ranks of 6912, 13,824 and 27,648 nodes, 0.50 GB for 2.
  EXPECT_NEAR(bytes_of(8, 6912), 0.24e9, 0.05e9);
  EXPECT_NEAR(bytes_of(8, 13824), 0.58e9, 0.1e9);
  EXPECT_NEAR(bytes_of(8, 27648), 1.6e9, 0.2e9);
  EXPECT_NEAR(bytes_of(2, 27648), 0.5e9, 0.1e9);
}

TEST(MemoryBudget, RefusesWhatDoesNotFitBesideWhatIsTaken) {
  MemoryBudget budget;
  EXPECT_NO_THROW(budget.require(1, "a byte"));
  EXPECT_THROW(budget.require(1e18, "an exabyte"), StepError);
  EXPECT_THROW(budget.take(1e18, "an exabyte"), StepError);
  // Half of this machine's limit, found by halving: it fits alone, and not twice more.
  double size_bytes = 1e18;
  const auto fits = [&] {
    try {
      budget.require(size_bytes, "x");
      return true;
    } catch (const StepError&) {
      return false;
    }
  };
  while (!fits()) size_bytes /= 2;
  budget.require(size_bytes, "what is only asked for");
  EXPECT_TRUE(fits()) << "asking takes nothing";
  budget.take(size_bytes, "x");
  EXPECT_FALSE(fits()) << "more than half of the limit fits only once";
}

}  // namespace
}  // namespace dcp
