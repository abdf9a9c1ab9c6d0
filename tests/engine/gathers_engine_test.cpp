// The gathers as stages of a step.
#include <gtest/gtest.h>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

using Ops = std::vector<std::string>;

struct Running {
  Running(const std::string& keys, std::string_view strategy, std::uint64_t seed = 3)
      : scenario(parse_scenario("test.yaml", keys + "batches:\n"
                                                    "  three: {seq_lens: [9, 1, 6]}\n"
                                                    "  five: {seq_lens: [3, 5, 1, 2, 9]}\n")),
        world(scenario.world_size, seed, scenario.graph.ubatches),
        engine(scenario, *find_strategy(strategy), world) {}

  const Batch& batch(const std::string& name) const {
    return scenario.batches[name == "three" ? 0 : 1];
  }

  // Names of the captured ops of a rank, in order.
  Ops ops(std::int64_t rows = 4) {
    engine.capture("g", rows);
    Ops names;
    for (const GraphNode& node : world.runtime(0).live_graphs().front()->nodes) {
      const bool has_label = node.op->label != nullptr;
      names.emplace_back(has_label ? node.op->label(node.params.data()) : node.op->name);
    }
    return names;
  }

  Scenario scenario;
  HostWorld world;
  Engine engine;
};

std::string refusal(const std::string& keys, std::string_view strategy = "a2a") {
  try {
    const Running running(keys, strategy);
  } catch (const StepError& error) {
    return std::string(error.kind());
  }
  return "accepted";
}

constexpr const char* kDirect = "world_size: 2\nmodel: tiny\ncomm_stream: same\nquery: direct\n";

TEST(GatherStages, DirectStoresPublishesAndWaitsBeforeAttention) {
  EXPECT_EQ(Running(kDirect, "a2a").ops(),
            (Ops{"kv_append", "direct_query_advance", "direct_query_store", "direct_query_publish",
                 "direct_query_wait", "mla_attention", "a2a_pack", "all_to_all", "a2a_combine"}));
}

TEST(GatherStages, TheFusedFormHasTwoNodesForEachExchange) {
  const std::string keys =
      std::string(kDirect) + "direct: {form: fused}\nkv_gather: {tokens: 4, dim: 16}\n";
  EXPECT_EQ(Running(keys, "direct").ops(),
            (Ops{"kv_append", "direct_kv_send", "direct_kv_take", "direct_query_send",
                 "direct_query_wait", "mla_attention", "direct_exchange"}));
}

TEST(GatherStages, KvGatherIsDirectWhereQueryOrCombineStoreToPeers) {
  const std::string gather = "kv_gather: {tokens: 4, dim: 16}\n";
  const std::string collective = "world_size: 2\nmodel: tiny\nquery: replicate\n" + gather;
  const Ops direct = {"direct_kv_advance", "direct_kv_store", "direct_kv_publish", "direct_kv_wait",
                      "direct_kv_read"};
  const auto part = [](const Ops& ops, std::size_t count) {
    return Ops(ops.begin() + 1, ops.begin() + 1 + static_cast<std::ptrdiff_t>(count));
  };
  EXPECT_EQ(part(Running(collective, "a2a").ops(), 1), Ops{"all_gather"});
  EXPECT_EQ(part(Running(collective, "direct").ops(), 5), direct);
  EXPECT_EQ(part(Running(kDirect + gather, "a2a").ops(), 5), direct);
}

TEST(GatherStages, OneRankHasNothingToGather) {
  Running alone("world_size: 1\nmodel: tiny\nquery: direct\nkv_gather: {tokens: 3, dim: 16}\n",
                "direct");
  EXPECT_EQ(alone.ops(),
            (Ops{"kv_append", "all_gather", "mla_attention", "a2a_pack", "a2a_combine"}));
}

// What a combine tells peers is that they may store the next query.
TEST(GatherStages, NewTokensAreAttendedToBeforeTheCombineThatReleasesTheQuery) {
  const std::string gqa =
      "world_size: 2\nmodel: {attention: gqa, num_heads: 8, num_kv_heads: 2, head_dim: 16}\n"
      "attention_split: context_then_new\ncomm_stream: same\nquery: ";
  const auto new_before_combine = [](const Ops& ops) {
    return std::find(ops.begin(), ops.end(), "new_attention") <
           std::find(ops.begin(), ops.end(), "all_reduce");
  };
  EXPECT_TRUE(new_before_combine(Running(gqa + "direct\n", "ag_ar").ops()));
  EXPECT_FALSE(new_before_combine(Running(gqa + "all_gather\n", "ag_ar").ops()));
}

TEST(GatherStages, LayersAndGraphsShareOneQueryBuffer) {
  Running running(std::string(kDirect) + "layers: 3\ngraph: {capture_sizes: [5, 3]}\n", "a2a");
  running.engine.capture("g5", 5);
  running.engine.capture("g3", 3);
  const auto query_of = [&](std::size_t graph) {
    return *running.engine.graphs()[graph]->ranks[0].ubatches[0].buffers.find("q_gathered");
  };
  EXPECT_EQ(query_of(0).data, query_of(1).data);
  EXPECT_EQ(query_of(0).size_bytes, 5u * 8 * 24 * 2) << "one layer's";
}

TEST(GatherErrors, RowsThatAreNotAlignedAreRefusedOrGatheredAnotherWay) {
  const std::string odd =
      "world_size: 2\nmodel: {attention: mla, num_heads: 2, kv_lora_rank: 8, rope_dim: 4}\n"
      "query: direct\n";
  EXPECT_EQ(refusal(odd), "alignment");
  EXPECT_EQ(refusal(odd + "direct: {fallback: a2a}\n"), "accepted");
  EXPECT_EQ(Running(odd + "comm_stream: same\ndirect: {fallback: a2a}\n", "a2a").ops()[1],
            "all_gather");
  const std::string gather = "kv_gather: {tokens: 4, dim: 568, dtype: fp8_e4m3}\n";
  EXPECT_EQ(refusal(kDirect + gather), "alignment");
  EXPECT_EQ(refusal("world_size: 2\nmodel: tiny\n" + gather), "accepted") << "an all-gather";
  EXPECT_EQ(refusal(kDirect + gather + "direct: {fallback: ag_rs}\n"), "accepted");
}

TEST(GatherErrors, TheRowsOfAKvGatherAreTheSameOnAllRanks) {
  EXPECT_EQ(refusal(std::string(kDirect) + "kv_gather: {tokens: 5, dim: 16}\n"), "capacity");
  EXPECT_EQ(refusal("world_size: 2\nmodel: tiny\nkv_gather: {tokens: 5, dim: 16}\n"), "capacity");
}

TEST(GatherErrors, MoreRowsThanTheBufferAreRefusedOrGatheredByACollective) {
  const std::string four =
      std::string(kDirect) + "graph: {capture_sizes: [4], max_num_tokens: 4}\n";
  Running refused(four, "a2a");
  EXPECT_THROW(refused.engine.eager(refused.batch("five")), StepError);
  Running taken(four + "direct: {fallback: a2a}\n", "a2a");
  const StepRun run = taken.engine.eager(taken.batch("five"));
  EXPECT_NE(run.step->ranks[0].ubatches[0].buffers.find("q_collected"), nullptr);
}

// The same bits come out, whatever gathers the query, in every layer.
TEST(GatherResults, DirectAndCollectiveGathersGiveTheSameBits) {
  for (const char* strategy : {"ag_rs", "ag_ar", "a2a", "direct"}) {
    const auto bits = [&](const std::string& query, std::uint64_t seed) {
      Running running(
          "world_size: 2\nmodel: {extends: tiny, padded_num_heads: 12}\nlayers: 3\n"
          "graph: {ubatches: 2}\nkv_gather: {tokens: 6, dim: 16}\nquery: " +
              query + "\n",
          strategy, seed);
      running.engine.capture("g5", 5);
      const StepRun run = running.engine.replay(running.batch("five"), "g5", 3);
      std::vector<std::byte> all;
      for (int layer = 0; layer < 3; ++layer) {
        const LayerBits values = running.engine.read_layer_bits(run, layer);
        const auto gathered = running.engine.read_gathered_kv(run, layer);
        for (std::size_t rank = 0; rank < 2; ++rank) {
          const auto& out = values.ranks[rank].out.bytes;
          all.insert(all.end(), out.begin(), out.end());
          all.insert(all.end(), gathered[rank].begin(), gathered[rank].end());
        }
        all.insert(all.end(), values.query.bytes.begin(), values.query.bytes.end());
      }
      return all;
    };
    const auto want = bits("all_gather", 1);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      ASSERT_EQ(bits("direct", seed), want) << strategy << ", seed " << seed;
      ASSERT_EQ(bits("direct\ndirect: {form: fused}", seed), want) << strategy << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace dcp
