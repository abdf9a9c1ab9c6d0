// What a step is said to have sent, where its exchange went another way than the scenario asks for.
#include "harness/step_checker.hpp"

#include <gtest/gtest.h>

#include "comm/simulated/host_world.hpp"
#include "core/scenario_reader.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

// As on one GPU: a kernel that waits for its peers must be of a graph.
class OneGpu final : public World {
 public:
  int world_size() const override { return world_.world_size(); }
  std::vector<Buffer> allocate_symmetric(std::string_view name, std::size_t size_bytes) override {
    return world_.allocate_symmetric(name, size_bytes);
  }
  void each_rank(const std::function<void(Rank&)>& program) override {
    world_.each_rank([&](Rank& rank) {
      PeersOfAGraph peers(*rank.peers);
      Rank as_there{rank.index, rank.runtime, rank.communicators, &peers};
      program(as_there);
    });
  }
  void drain() override { world_.drain(); }
  void destroy_communicators() override { world_.destroy_communicators(); }

 private:
  struct PeersOfAGraph final : PeerAccess {
    explicit PeersOfAGraph(PeerAccess& of_host) : host(of_host) {}
    RemoteStores* stores() override { return host.stores(); }
    WaitBound wait_bound() override { return host.wait_bound(); }
    bool may_wait_at_once(bool is_captured) override { return is_captured; }
    void before_wait(int ubatch, Stream stream) override { host.before_wait(ubatch, stream); }
    PeerAccess& host;
  };

  HostWorld world_{2, 11};
};

// One row of two heads of 16 fp32: lines double the row, steps send it and its lse once.
TEST(StepChecker, CountsTheBytesOfTheFormThatTheExchangeWentIn) {
  const Scenario scenario = parse_scenario("test.yaml", R"(schema: 1
world_size: 2
model: tiny
layers: 1
dtype: fp32
direct: {form: fused}
graph: {capture_sizes: [1], max_num_tokens: 1}
batches:
  one: {seq_lens: [5]}
)");
  const Strategy& strategy = *find_strategy("direct");
  OneGpu world;
  Engine engine(scenario, strategy, world);
  StepChecker checker(scenario, strategy, {});
  const auto sent = [&](StepRun run) {
    StepReport report;
    checker.check(engine,
                  {.run = std::move(run),
                   .batch = scenario.batches[0],
                   .expect = {},
                   .names = {},
                   .stubbed = false},
                  report);
    EXPECT_TRUE(report.problems.empty());
    return report.egress_bytes;
  };
  engine.capture("g1", 1);
  StepRun run = engine.replay(scenario.batches[0], "", 1);
  const auto heads = static_cast<std::size_t>(run.step->ranks[0].shape.heads_per_rank);
  EXPECT_EQ(sent(std::move(run)), heads * 16 * 4 * 2);
  EXPECT_EQ(sent(engine.eager(scenario.batches[0])), heads * (16 * 4 + 4));
}

}  // namespace
}  // namespace dcp
