#include "engine/engine.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

constexpr const char* kScenario = R"(schema: 1
world_size: 2
model: tiny
layers: 2
data: {kind: mean}
dtype: fp32
graph: {capture_sizes: [2, 4], max_num_tokens: 4}
batches:
  two: {seq_lens: [5, 3]}
  other: {seq_lens: [1, 7]}
  four: {seq_lens: [5, 3, 2, 9]}
)";

class EngineTest : public testing::TestWithParam<const char*> {
 protected:
  explicit EngineTest(const std::string& extra = "")
      : scenario_(parse_scenario("test.yaml", kScenario + extra)) {}

  const Batch& batch(const std::string& name) const {
    for (const Batch& batch : scenario_.batches) {
      if (batch.name == name) return batch;
    }
    throw std::logic_error(name);
  }
  // Output of row `row`, head 0, in the last layer.
  float out(const StepRun& run, std::size_t row) const {
    const auto values = engine_.read_layer(run, scenario_.layers - 1);
    const auto& rank = values.ranks[0];
    return rank.out[row * static_cast<std::size_t>(rank.num_out_heads) * 16];
  }

  Scenario scenario_;
  HostWorld world_{2, 11};
  Engine engine_{scenario_, *find_strategy(GetParam()), world_};
};

TEST_P(EngineTest, AReplayFollowsTheNewBatch) {
  engine_.capture("g2", 2);
  EXPECT_FLOAT_EQ(out(engine_.replay(batch("two"), "", 1), 0), 1.4f);
  EXPECT_FLOAT_EQ(out(engine_.replay(batch("other"), "", 1), 1), 10.0f / 7);
  EXPECT_FLOAT_EQ(out(engine_.replay(batch("two"), "", 1), 0), 1.4f);
}

TEST_P(EngineTest, TheSmallestGraphThatHoldsTheRowsIsTaken) {
  engine_.capture("g4", 4);
  EXPECT_EQ(engine_.replay(batch("two"), "", 1).step->name, "g4");
  engine_.capture("g2", 2);
  EXPECT_EQ(engine_.replay(batch("two"), "", 1).step->name, "g2");
  engine_.destroy("g2");
  EXPECT_EQ(engine_.replay(batch("two"), "", 1).step->name, "g4");
}

TEST_P(EngineTest, WithoutAGraphTheStepRunsEagerlyAndIsCounted) {
  engine_.capture("g2", 2);
  const StepRun run = engine_.replay(batch("four"), "", 1);
  EXPECT_EQ(run.step->name, "eager");
  EXPECT_EQ(run.eager_rows, 4);
  EXPECT_FLOAT_EQ(out(run, 3), 13.0f / 9);
}

TEST_P(EngineTest, MetadataTailsAreResetAtEveryLoad) {
  engine_.capture("g4", 4);
  engine_.replay(batch("four"), "", 1);
  const StepRun run = engine_.replay(batch("two"), "", 1);
  const auto values = engine_.read_layer(run, 0);
  for (std::size_t row = 2; row < 4; ++row) {
    EXPECT_EQ(
        values.ranks[1].out[row * static_cast<std::size_t>(values.ranks[1].num_out_heads) * 16],
        0.0f);
    EXPECT_EQ(values.ranks[1].partial_lse[row * 8], -std::numeric_limits<float>::infinity());
  }
}

TEST_P(EngineTest, CapturingLaunchesNothing) {
  engine_.capture("g2", 2);
  const StepRun run = engine_.replay(batch("two"), "", 1);
  const float before = out(run, 0);
  engine_.capture("g4", 4);
  EXPECT_EQ(out(run, 0), before) << "another graph's capture does not touch these buffers";
}

TEST_P(EngineTest, AGraphReadsItsBuffersAfterOthersWereAllocatedAndFreed) {
  engine_.capture("g2", 2);
  for (int i = 0; i < 3; ++i) engine_.eager(batch("four"));
  engine_.capture("g4", 4);
  engine_.destroy("g4");
  EXPECT_FLOAT_EQ(out(engine_.replay(batch("two"), "g2", 1), 0), 1.4f);
}

TEST_P(EngineTest, RecapturingANameReplacesItsGraph) {
  engine_.capture("g", 2);
  engine_.capture("g", 4);
  EXPECT_EQ(engine_.replay(batch("two"), "g", 1).step->rows, 4);
}

TEST_P(EngineTest, RefusedStepsNameTheirKindAndChangeNothing) {
  engine_.capture("g2", 2);
  const auto kind = [](const auto& step) {
    try {
      step();
    } catch (const StepError& error) {
      return error.kind();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(kind([&] { engine_.replay(batch("four"), "g2", 1); }), "capacity");
  EXPECT_EQ(kind([&] { engine_.replay(batch("two"), "g7", 1); }), "no_such_graph");
  EXPECT_EQ(kind([&] { engine_.capture("g5", 5); }), "capacity");
  EXPECT_EQ(kind([&] { engine_.destroy("g7"); }), "no_such_graph");
  BufferRef nowhere;
  nowhere.buffer = "sned";
  EXPECT_EQ(kind([&] { engine_.poison(nowhere); }), "no_such_buffer");
  nowhere.buffer = "kv_cache";
  nowhere.row = 10'000;
  EXPECT_EQ(kind([&] { engine_.poison(nowhere); }), "no_such_buffer");
  EXPECT_FLOAT_EQ(out(engine_.replay(batch("two"), "", 1), 0), 1.4f);
}

TEST_P(EngineTest, ACaptureThatIsRefusedOnOneRankLeavesNoGraphOnAnother) {
  engine_.destroy_communicators();
  EXPECT_THROW(engine_.capture("g2", 2), StepError);
  EXPECT_TRUE(world_.runtime(0).live_graphs().empty());
  EXPECT_TRUE(world_.runtime(1).live_graphs().empty());
}

TEST_P(EngineTest, RanksCaptureTheSameNodesInTheSameOrder) {
  engine_.capture("g2", 2);
  const GraphRecord& first = *world_.runtime(0).live_graphs().front();
  const GraphRecord& second = *world_.runtime(1).live_graphs().front();
  ASSERT_EQ(first.nodes.size(), second.nodes.size());
  for (std::size_t i = 0; i < first.nodes.size(); ++i) {
    EXPECT_EQ(first.nodes[i].op, second.nodes[i].op);
    EXPECT_EQ(first.nodes[i].dependencies, second.nodes[i].dependencies);
  }
}

TEST_P(EngineTest, EveryCapturedPointerLiesInALiveAllocation) {
  engine_.capture("g2", 2);
  engine_.eager(batch("four"));
  engine_.capture("g4", 4);
  for (int rank = 0; rank < 2; ++rank) {
    const Ledger& ledger = world_.runtime(rank).ledger();
    for (const GraphRecord* graph : world_.runtime(rank).live_graphs()) {
      for (const GraphNode& node : graph->nodes) {
        std::vector<Access> accesses;
        node.op->accesses(node.params.data(), accesses);
        ASSERT_FALSE(accesses.empty());
        for (const Access& access : accesses) {
          if (access.size_bytes == 0) continue;
          const Allocation* owner = ledger.find(access.data);
          ASSERT_NE(owner, nullptr) << node.op->name << " " << access.argument;
          EXPECT_TRUE(owner->live) << owner->name;
          const auto* end = static_cast<const std::byte*>(access.data) + access.size_bytes;
          EXPECT_LE(end, owner->data + owner->size_bytes)
              << node.op->name << " " << access.argument << " runs past " << owner->name;
        }
      }
    }
  }
}

TEST_P(EngineTest, APoisonedResultIsOverwrittenByTheReplay) {
  engine_.capture("g2", 2);
  engine_.replay(batch("two"), "", 1);
  BufferRef ref;
  ref.buffer = "out";
  ref.row = 1;
  engine_.poison(ref);
  EXPECT_FLOAT_EQ(out(engine_.replay(batch("two"), "", 1), 1), 4.0f / 3);
}

TEST(MemoryBudget, WhatDoesNotFitIsRefusedBeforeItIsTried) {
  for (const char* huge : {"batches: {a: {seq_lens: [2000000000]}}\n",
                           "graph: {capture_sizes: [1048576]}\nbatches: {a: {seq_lens: [5]}}\n"}) {
    const Scenario scenario = parse_scenario(
        "test.yaml", std::string("schema: 1\nworld_size: 64\nmodel: deepseek-v3\n") + huge);
    HostWorld world(64, 1);
    try {
      Engine engine(scenario, *find_strategy("a2a"), world);
      engine.capture("g", 1048576);
      FAIL() << huge;
    } catch (const StepError& error) {
      EXPECT_EQ(error.kind(), "capacity") << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, EngineTest, testing::Values("ag_rs", "ag_ar", "a2a"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace dcp
