// Every step is captured twice, in two worlds whose memory lies elsewhere and with another batch:
// nothing but pointers may differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/shadow.hpp"
#include "comm/make_world.hpp"
#include "core/scenario_reader.hpp"
#include "harness/audit/run_audit.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kBatches = R"(batches:
  short: {seq_lens: [5, 3, 1, 7]}
  long: {seq_lens: [40, 1, 22], query_start_loc: [0, 2, 3, 4]}
)";

// A capture of four rows with a batch.
struct Captured {
  Captured(const Scenario& scenario, const std::string& strategy, const std::string& batch,
           const verb::Set* set = nullptr)
      : world(make_world(
            {.world_size = scenario.world_size, .num_communicators = scenario.graph.ubatches})),
        engine(scenario, *find_strategy(strategy), *world),
        audit(*world) {
    if (set != nullptr) engine.set(*set, std::nullopt);
    for (const Batch& each : scenario.batches) {
      if (each.name == batch) engine.capture("g", 4, &each);
    }
    audit.look(engine, 0);
  }

  audit::Capture of(int rank) const {
    const audit::RankRecord& record = audit.ranks()[static_cast<std::size_t>(rank)];
    return {record, record.graphs.front()};
  }

  std::unique_ptr<World> world;
  Engine engine;
  RunAudit audit;
};

TEST(ShadowCapture, OnlyPointersDifferBetweenTwoCaptures) {
  for (const char* variant :
       {"model: tiny\nlayers: 2\n", "model: tiny\nsplit_kv: 2\ngraph: {ubatches: 2}\n",
        "model: {attention: gqa, num_heads: 4, num_kv_heads: 2, head_dim: 8}\n"
        "attention_split: context_then_new\nworkspace: fixed\n"}) {
    const Scenario scenario =
        parse_scenario("test.yaml", std::string("world_size: 2\n") + variant + kBatches);
    for (const char* strategy : {"ag_rs", "ag_ar", "a2a"}) {
      const Captured capture(scenario, strategy, "short");
      const Captured shadow(scenario, strategy, "long");
      for (const int rank : {0, 1}) {
        EXPECT_THAT(audit::compare_captures(capture.of(rank), shadow.of(rank)), IsEmpty())
            << strategy << ", " << variant;
      }
    }
  }
}

TEST(ShadowCapture, NumberThatFollowsTheHostIsFound) {
  const Scenario scenario =
      parse_scenario("test.yaml", std::string("world_size: 2\nmodel: tiny\n") + kBatches);
  const verb::Set frozen{.key = "num_requests", .value = "3"};
  const Captured capture(scenario, "a2a", "short");
  const Captured shadow(scenario, "a2a", "long", &frozen);
  std::vector<std::string> ops;
  for (const audit::Finding& finding : audit::compare_captures(capture.of(0), shadow.of(0))) {
    EXPECT_EQ(finding.kind, "frozen_host_value");
    ops.push_back(finding.node);
  }
  EXPECT_THAT(ops, ElementsAre("mla_attention"));
}

TEST(ShadowCapture, PointerThatIsNotDeclaredIsFound) {
  const Scenario scenario =
      parse_scenario("test.yaml", std::string("world_size: 2\nmodel: tiny\n") + kBatches);
  const Captured capture(scenario, "a2a", "short");
  const Captured shadow(scenario, "a2a", "long");
  audit::Graph graph = capture.of(0).graph;
  std::erase_if(graph.nodes.front().accesses,
                [](const audit::Access& access) { return access.argument == "slot_mapping"; });
  const auto found = audit::compare_captures({capture.of(0).rank, graph}, shadow.of(0));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "undeclared_access");
  EXPECT_EQ(found[0].buffer, "slot_mapping");
}

}  // namespace
}  // namespace dcp
