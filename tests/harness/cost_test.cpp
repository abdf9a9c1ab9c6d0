// What many replays and large plans keep, counted: no clock, so that a busy machine changes
// nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/simulated/host_world.hpp"
#include "core/scenario_reader.hpp"
#include "harness/scenario_runner.hpp"
#include "harness/session.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

constexpr const char* kScenario = R"(schema: 1
world_size: 2
model: tiny
batches:
  two: {seq_lens: [5, 3]}
)";

// Tasks that were enqueued and are not done.
class PendingCount final : public ScheduleObserver {
 public:
  void added(TaskId, const Task&, std::span<const TaskId>) override {
    most_ = std::max(most_, ++pending_);
  }
  void stepped(TaskId, const Task&, bool done) override { pending_ -= done; }
  void abandoned() override { pending_ = 0; }

  std::int64_t most() const { return most_; }

 private:
  std::int64_t pending_ = 0;
  std::int64_t most_ = 0;
};

class CostOfReplays : public testing::TestWithParam<const char*> {
 protected:
  const Strategy& strategy() const { return *find_strategy(GetParam()); }
  const Batch& batch() const { return scenario_.batches.front(); }

  const Scenario scenario_ = parse_scenario("test.yaml", kScenario);
};

TEST_P(CostOfReplays, NoMoreIsNotedOfManyThanOfTwo) {
  const auto noted = [&](std::int64_t times) {
    Session session(scenario_, strategy(), {.seed = 1});
    session.engine().capture("g2", 2);
    const StepRequest request{.batch = batch(), .times = times};
    session.watch(request, session.engine().graph_of(request));
    session.engine().replay(request);
    return session.num_noted();
  };
  const std::size_t two = noted(2);
  EXPECT_GT(two, noted(1));
  EXPECT_EQ(noted(3), two);
  EXPECT_EQ(noted(1000), two);
}

// Of the launch after a launch of the same graph nothing is noted at all.
TEST_P(CostOfReplays, NothingIsNotedOfALaterStep) {
  Session session(scenario_, strategy(), {.seed = 1});
  session.engine().capture("g2", 2);
  const StepRequest request{.batch = batch()};
  for (const bool is_first : {true, false, false}) {
    session.watch(request, session.engine().graph_of(request));
    session.engine().replay(request);
    EXPECT_EQ(session.num_noted() > 0, is_first);
  }
}

TEST_P(CostOfReplays, NoMoreIsPendingOfManyThanOfAFew) {
  const auto most = [&](std::int64_t times) {
    HostWorld world(2, 1);
    PendingCount count;
    world.observe(&count);
    Engine engine(scenario_, strategy(), world);
    engine.capture("g2", 2);
    engine.replay(batch(), "g2", times);
    return count.most();
  };
  EXPECT_GT(most(2), most(1));
  EXPECT_EQ(most(1000), most(200));
}

TEST_P(CostOfReplays, ReplaysAllocateNothing) {
  HostWorld world(2, 1);
  Engine engine(scenario_, strategy(), world);
  engine.capture("g2", 2);
  for (int i = 0; i < 2; ++i) engine.replay(batch(), "g2", 1);  // what is made at its first use
  const std::uint64_t before = world.runtime(0).ledger().now();
  engine.replay(batch(), "g2", 1000);
  EXPECT_EQ(world.runtime(0).ledger().now(), before);
}

INSTANTIATE_TEST_SUITE_P(Strategies, CostOfReplays,
                         testing::Values("ag_rs", "ag_ar", "a2a", "direct"),
                         [](const auto& tested) { return std::string(tested.param); });

// Host memory of a rank that has bytes although the plan's device has none.
std::size_t pinned_bytes(HostWorld& world, int rank) {
  std::size_t bytes = 0;
  for (const Allocation& each : world.runtime(rank).ledger().all()) {
    if (each.owner == "pinned") bytes += each.size_bytes;
  }
  return bytes;
}

TEST(CostOfPlans, APlanStagesNoMetadata) {
  const Scenario scenario = parse_scenario("test.yaml", R"(schema: 1
world_size: 8
model: tiny
graph: {capture_sizes: [16], ubatches: 4}
batches:
  many: {seq_lens: [9, 1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3, 4, 5, 6, 7]}
)");
  for (const Backing backing : {Backing::kBytes, Backing::kNothing}) {
    HostWorld world(8, 1, 4, backing);
    Engine engine(scenario, *find_strategy("a2a"), world);
    EXPECT_EQ(pinned_bytes(world, 0), 0u);
    engine.capture("g16", 16);
    EXPECT_EQ(pinned_bytes(world, 0) > 0, backing == Backing::kBytes);
  }
}

}  // namespace
}  // namespace dcp
