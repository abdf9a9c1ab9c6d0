#include <gtest/gtest.h>

#include <limits>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

constexpr float kEmpty = -std::numeric_limits<float>::infinity();

// Two ranks, eight heads that read two KV heads of 16 elements.
std::string text(const std::string& keys) {
  return "schema: 1\nworld_size: 2\n"
         "model: {attention: gqa, num_heads: 8, num_kv_heads: 2, head_dim: 16}\n"
         "dtype: fp32\ngraph: {capture_sizes: [4]}\n" +
         keys +
         "batches:\n"
         "  first: {seq_lens: [1, 5, 3]}\n"
         "  long: {seq_lens: [40, 7, 90, 2], query_start_loc: [0, 1, 2, 3, 4]}\n";
}

struct Running {
  Running(const std::string& keys, std::string_view strategy)
      : scenario(parse_scenario("test.yaml", text(keys))),
        engine(scenario, *find_strategy(strategy), world) {
    engine.capture("g4", 4);
  }

  StepRun replay(const std::string& batch) {
    for (const Batch& candidate : scenario.batches) {
      if (candidate.name == batch) return engine.replay(candidate, "", 1);
    }
    throw std::logic_error(batch);
  }

  // Names of the captured ops of rank 0, in order.
  std::vector<std::string> ops() {
    std::vector<std::string> names;
    for (const GraphNode& node : world.runtime(0).live_graphs().front()->nodes) {
      names.emplace_back(node.op->name);
    }
    return names;
  }

  Scenario scenario;
  HostWorld world{2, 3};
  Engine engine;
};

std::string refusal(const std::string& model, int tensor_parallel_size) {
  const Scenario scenario = parse_scenario(
      "test.yaml", "world_size: 2\ntensor_parallel_size: " + std::to_string(tensor_parallel_size) +
                       "\nmodel: " + model + "\nbatches: {b: {seq_lens: [5]}}\n");
  try {
    StepPlan(scenario, *find_strategy("a2a"), 1);
  } catch (const StepError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GqaPlan, AFractionOfAKvHeadIsRefusedWithItsNumbers) {
  EXPECT_EQ(refusal("{attention: gqa, num_heads: 24, num_kv_heads: 6, head_dim: 16}", 8),
            "heads_not_divisible: 6 KV heads * 2 ranks / tensor_parallel_size 8 is not a whole "
            "number of KV heads of the group");
  EXPECT_EQ(refusal("{attention: gqa, num_heads: 24, num_kv_heads: 3, head_dim: 16}", 8),
            "accepted")
      << "below one: each rank holds a replica";
  EXPECT_EQ(refusal("qwen3-235b", 8), "accepted");
  EXPECT_EQ(refusal("llama-70b", 2), "accepted");
}

TEST(GqaPlan, KvHeadsMustDivideTheQueryHeads) {
  Scenario scenario = parse_scenario("test.yaml", text(""));
  scenario.model.num_kv_heads = 3;
  try {
    StepPlan(scenario, *find_strategy("a2a"), 1);
    FAIL() << "3 KV heads for 8 query heads were accepted";
  } catch (const StepError& error) {
    EXPECT_EQ(error.why(),
              "3 KV heads * 2 ranks / tensor_parallel_size 2 is 3 KV heads of the group, which do "
              "not divide its 8 query heads");
  }
}

TEST(GqaPlan, TheShapeNamesTheGroupsKvHeadsAndTheCacheRow) {
  Scenario scenario = parse_scenario("test.yaml", text(""));
  StepShape shape = StepPlan(scenario, *find_strategy("a2a"), 4).shape(0, 4);
  EXPECT_EQ(shape.num_kv_heads, 2);
  EXPECT_EQ(shape.kv_row_dim, 2 * 2 * 16);
  EXPECT_EQ(shape.qk_head_dim, 16);
  scenario.tensor_parallel_size = 8;
  shape = StepPlan(scenario, *find_strategy("a2a"), 4).shape(0, 4);
  EXPECT_EQ(shape.num_heads, 2);
  EXPECT_EQ(shape.num_kv_heads, 1);
  EXPECT_EQ(shape.kv_row_dim, 2 * 16);
}

TEST(GqaEngine, StagesFollowTheSettings) {
  using Ops = std::vector<std::string>;
  EXPECT_EQ(
      Running("comm_stream: same\n", "a2a").ops(),
      (Ops{"kv_append", "collective", "gqa_attention", "a2a_pack", "collective", "a2a_combine"}));
  EXPECT_EQ(Running("comm_stream: same\nquery: replicate\nsplit_kv: 2\n"
                    "attention_split: context_then_new\n",
                    "a2a")
                .ops(),
            (Ops{"kv_append", "gqa_attention", "split_combine", "a2a_pack", "collective",
                 "a2a_combine", "new_attention", "merge_states"}));
}

class ContextThenNew : public testing::TestWithParam<const char*> {};

TEST_P(ContextThenNew, AFirstTokenIsEmptyOnEveryRankAndFinite) {
  Running running("attention_split: context_then_new\n", GetParam());
  const StepRun run = running.replay("first");
  const LayerValues values = running.engine.read_layer(run, 0);
  for (const RankLayerValues& rank : values.ranks) {
    const auto heads = static_cast<std::size_t>(rank.num_out_heads);
    for (std::size_t head = 0; head < 8; ++head) EXPECT_EQ(rank.partial_lse[head], kEmpty);
    for (std::size_t head = 0; head < heads; ++head) {
      EXPECT_EQ(rank.context_lse[head], kEmpty);
      EXPECT_TRUE(std::isfinite(rank.lse[head]));
      EXPECT_EQ(rank.lse[head], rank.new_lse[head]);
      EXPECT_EQ(rank.out[head * 16 + 3], rank.new_out[head * 16 + 3]);
      EXPECT_GT(rank.context_lse[heads + head], kEmpty) << "the next request has a context";
      EXPECT_EQ(rank.lse[3 * heads + head], kEmpty) << "padding";
      EXPECT_EQ(rank.out[(3 * heads + head) * 16], 0.0f);
    }
  }
}

TEST_P(ContextThenNew, GivesWhatOneAttentionGives) {
  for (const char* keys : {"query: all_gather\n", "query: replicate\n"}) {
    Running whole(keys, GetParam());
    Running split(std::string(keys) + "attention_split: context_then_new\nsplit_kv: 3\n",
                  GetParam());
    for (const char* batch : {"first", "long"}) {
      const LayerValues a = whole.engine.read_layer(whole.replay(batch), 0);
      const LayerValues b = split.engine.read_layer(split.replay(batch), 0);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        for (std::size_t i = 0; i < a.ranks[rank].out.size(); ++i) {
          ASSERT_NEAR(a.ranks[rank].out[i], b.ranks[rank].out[i], 2e-5f);
        }
      }
    }
  }
}

// The step itself does not read them back: a later step will.
TEST_P(ContextThenNew, NewTokensAreStoredInTheirOwnersCache) {
  Running running("attention_split: context_then_new\n", GetParam());
  running.replay("long");
  std::vector<int> times_found(4, 0);
  running.world.each_rank([&](Rank& rank) {
    const auto read = [&](std::string_view name, std::vector<float>& values) {
      for (const Allocation& allocation : running.world.runtime(rank.index).ledger().all()) {
        if (!allocation.live || allocation.name != name) continue;
        values.resize(allocation.size_bytes / sizeof(float));
        rank.runtime.read(values.data(), allocation.data, allocation.size_bytes);
      }
    };
    std::vector<float> cache, new_kv;
    read("kv_cache", cache);
    read("new_kv", new_kv);
    constexpr std::size_t kRow = 64;
    ASSERT_EQ(new_kv.size(), 4 * kRow);
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t slot = 0; slot < cache.size() / kRow; ++slot) {
        times_found[row] +=
            std::equal(new_kv.begin() + static_cast<std::ptrdiff_t>(row * kRow),
                       new_kv.begin() + static_cast<std::ptrdiff_t>((row + 1) * kRow),
                       cache.begin() + static_cast<std::ptrdiff_t>(slot * kRow));
      }
    }
  });
  EXPECT_EQ(times_found, (std::vector<int>{1, 1, 1, 1}));
}

INSTANTIATE_TEST_SUITE_P(Strategies, ContextThenNew, testing::Values("ag_rs", "ag_ar", "a2a"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace dcp
