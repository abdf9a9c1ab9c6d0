#include "harness/explanation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/scenario_reader.hpp"

namespace dcp {
namespace {

Scenario scenario_of(const std::string& more, int world_size = 4) {
  return parse_scenario("x.yaml", "world_size: " + std::to_string(world_size) + "\n" + more);
}

const std::string kShort =
    "model: tiny\ngraph: {capture_sizes: [4]}\nbatches:\n  short: {seq_lens: [9, 1, 0, 3], "
    "query_start_loc: [0, 1, 2, 3, 4]}\n";

TEST(Explanation, TellsWhichKeysARowHasOnEachRank) {
  const Explanation explained = explain(scenario_of(kShort), {"a2a"});
  const auto& rows = explained.batches.at(0).rows;
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].keys, (std::vector<std::int64_t>{3, 2, 2, 2}));
  EXPECT_EQ(rows[0].position, 8);
  EXPECT_EQ(rows[1].keys, (std::vector<std::int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(rows[2].request, -1) << "a request of length 0 is padding";
  EXPECT_EQ(rows[3].keys, (std::vector<std::int64_t>{1, 1, 1, 0}));
}

TEST(Explanation, NamesTheGraphThatEachStepLaunches) {
  const Explanation explained = explain(
      scenario_of("model: tiny\ngraph: {capture_sizes: [4, 2]}\nbatches:\n  one: {seq_lens: [5]}\n"
                  "  three: {seq_lens: [5, 6, 7]}\n  six: {seq_lens: [1, 2, 3, 4, 5, 6]}\n"),
      {"ag_rs"});
  const auto& steps = explained.strategies.at(0).steps;
  ASSERT_EQ(steps.size(), 7u);  // capture, three batches, twice
  EXPECT_EQ(steps[1].graph, "g2");
  EXPECT_EQ(steps[2].graph, "g4");
  EXPECT_EQ(steps[3].graph, "") << "six rows have no graph";
  EXPECT_EQ(steps[3].rows, 6);
}

// The formulas of the strategies, and every other rank's heads of the query.
TEST(Explanation, CountsWhatOneRankSendsInAStep) {
  const Explanation explained = explain(scenario_of("layers: 2\n" + kShort), {"a2a", "ag_ar"});
  const ExplainedGraph& a2a = explained.strategies.at(0).graphs.at(0);
  const ExplainedGraph& ag_ar = explained.strategies.at(1).graphs.at(0);
  const std::size_t rows = 4, heads = 8, dim = 16, peers = 3, layers = 2;
  EXPECT_EQ(a2a.combine_bytes, layers * peers * rows * heads / 4 * (dim * 2 + 4));
  EXPECT_EQ(ag_ar.combine_bytes,
            layers * (peers * rows * heads * 4 + 2 * peers * rows * heads * dim * 2 / 4));
  EXPECT_EQ(a2a.query_bytes, layers * peers * rows * heads / 4 * 24 * 2);
  std::size_t sent = 0;
  for (const ExplainedOp& op : ag_ar.ops) sent += op.egress_bytes;
  EXPECT_EQ(sent, ag_ar.query_bytes + ag_ar.combine_bytes);
}

TEST(Explanation, TakesAModelThatNoMemoryHereHolds) {
  const Explanation explained =
      explain(scenario_of("model: deepseek-v3\nlayers: 61\nkv: {num_blocks: 2000000}\nbatches:\n  "
                          "long: {seq_lens: [2000000, 1000000]}\n",
                          8),
              {"a2a"});
  const ExplainedStrategy& strategy = explained.strategies.at(0);
  ASSERT_FALSE(strategy.error) << strategy.error->why;
  const auto cache = std::find_if(strategy.inputs.begin(), strategy.inputs.end(),
                                  [](const auto& each) { return each.name == "kv_cache"; });
  EXPECT_GT(cache->size_bytes, std::size_t{8} << 40);
  EXPECT_EQ(strategy.graphs.at(0).ops.at(0).count, 61);
}

TEST(Explanation, SaysWhatIsRefusedWhereItIs) {
  const Explanation explained = explain(
      scenario_of("model: tiny\nbatches:\n  good: {seq_lens: [3]}\n  bad: {seq_lens: [5, 6], "
                  "query_start_loc: [0, 2, 1]}\n"),
      {"a2a"});
  EXPECT_FALSE(explained.batches.at(0).error);
  EXPECT_EQ(explained.batches.at(1).error->kind, "qsl_not_monotone");
  const Explanation heads =
      explain(scenario_of("model: tiny\nbatches:\n  good: {seq_lens: [3]}\n", 3), {"a2a", "ag_rs"});
  EXPECT_EQ(heads.strategies.at(1).error->kind, "heads_not_divisible");
}

TEST(Explanation, FollowsTheFixedWorkspaceAndUbatches) {
  const Explanation explained =
      explain(scenario_of("model: tiny\nworkspace: fixed\ngraph: {capture_sizes: [6], ubatches: "
                          "2}\nbatches:\n  six: {seq_lens: [1, 2, 3, 4, 5, 6]}\n",
                          2),
              {"a2a"});
  const ExplainedStrategy& strategy = explained.strategies.at(0);
  EXPECT_EQ(strategy.steps.at(1).ubatches, (std::vector<Ubatch>{{0, 3}, {3, 3}}));
  const auto& buffers = strategy.graphs.at(0).buffers;
  const auto send = std::find_if(buffers.begin(), buffers.end(),
                                 [](const auto& each) { return each.name == "send"; });
  EXPECT_EQ(send->num, 2);
  EXPECT_EQ(send->lives, "the fixed workspace, shared by graphs");
}

}  // namespace
}  // namespace dcp
