#include "core/legality.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/scenario_reader.hpp"

namespace dcp {
namespace {

std::vector<LegalityVerdict> verdicts(const std::string& keys) {
  return vllm_legality(parse_scenario("s.yaml", keys + (keys.find("batches") == std::string::npos
                                                            ? "\nbatches: {b: {seq_lens: [5, 2]}}\n"
                                                            : "\n")));
}

// The rules that are broken, in order.
std::vector<std::string> broken(const std::string& keys) {
  std::vector<std::string> rules;
  for (const LegalityVerdict& verdict : verdicts(keys)) {
    if (!verdict.holds) rules.emplace_back(verdict.rule);
  }
  return rules;
}

using Rules = std::vector<std::string>;

TEST(Legality, TheUsualDeploymentsAreLegal) {
  EXPECT_EQ(broken("world_size: 2\ntensor_parallel_size: 8\nmodel: qwen3-235b"), Rules{});
  EXPECT_EQ(broken("world_size: 2\ntensor_parallel_size: 16\nmodel: llama-70b"), Rules{});
  EXPECT_EQ(broken("world_size: 8\nmodel: deepseek-v3"), Rules{});
  EXPECT_EQ(broken("world_size: 8\nmodel: kimi-k2.5\ninterleave: 64"), Rules{});
}

TEST(Legality, AKvHeadMustHaveAsManyReplicasAsTheGroupHasRanks) {
  EXPECT_EQ(broken("world_size: 4\ntensor_parallel_size: 8\nmodel: qwen3-235b"),
            Rules{"world_size <= tensor_parallel_size / num_kv_heads"});
  EXPECT_EQ(broken("world_size: 4\ntensor_parallel_size: 8\nmodel: llama-70b"),
            (Rules{"tensor_parallel_size > num_kv_heads",
                   "world_size <= tensor_parallel_size / num_kv_heads"}));
  EXPECT_EQ(broken("world_size: 1\ntensor_parallel_size: 8\nmodel: llama-70b\nstrategy: ag_rs"),
            Rules{})
      << "without sharding there is no such limit";
}

TEST(Legality, QueryHeadsAndKvHeadsMustFitTheTensorParallelSize) {
  EXPECT_EQ(broken("world_size: 3\nmodel: {attention: mla, num_heads: 8, kv_lora_rank: 16, "
                   "rope_dim: 8}"),
            Rules{"num_heads % tensor_parallel_size == 0"});
  EXPECT_EQ(broken("world_size: 2\ntensor_parallel_size: 3\nmodel: {attention: mla, num_heads: 6, "
                   "kv_lora_rank: 16, rope_dim: 8}"),
            Rules{"tensor_parallel_size % world_size == 0"});
  EXPECT_EQ(broken("world_size: 1\ntensor_parallel_size: 4\nstrategy: ag_rs\nmodel: {attention: "
                   "gqa, num_heads: 12, num_kv_heads: 3, head_dim: 16}"),
            Rules{"num_kv_heads % tensor_parallel_size == 0 or tensor_parallel_size % num_kv_heads "
                  "== 0"});
  EXPECT_EQ(broken("world_size: 4\ntensor_parallel_size: 8\nmodel: {attention: gqa, num_heads: 16, "
                   "num_kv_heads: 2, head_dim: 16}"),
            Rules{});
  EXPECT_EQ(broken("world_size: 4\ntensor_parallel_size: 12\nmodel: {attention: gqa, num_heads: "
                   "12, num_kv_heads: 2, head_dim: 16}"),
            Rules{"num_heads / num_kv_heads % world_size == 0"});
}

TEST(Legality, APageHoldsWholeRunsOfTokens) {
  EXPECT_EQ(broken("world_size: 2\nmodel: tiny\ninterleave: 4"), Rules{});
  EXPECT_EQ(broken("world_size: 2\nmodel: tiny\ninterleave: 3"),
            Rules{"kv.block_size % interleave == 0"});
  EXPECT_EQ(broken("world_size: 2\nmodel: tiny\ninterleave: 8"),
            Rules{"kv.block_size % interleave == 0"});
}

TEST(Legality, SpeculativeTokensWantAnInterleaveOfOne) {
  const std::string batches = "\nbatches: {b: {seq_lens: [5, 2], query_start_loc: [0, 2, 3]}}";
  EXPECT_EQ(broken("world_size: 2\nmodel: tiny" + batches), Rules{});
  EXPECT_EQ(broken("world_size: 2\nmodel: tiny\ninterleave: 2" + batches),
            Rules{"interleave == 1 with several query tokens"});
  EXPECT_EQ(broken("world_size: 2\nmodel: tiny\ninterleave: 2"), Rules{});
}

TEST(Legality, AnAllToAllNeedsPeers) {
  EXPECT_EQ(broken("world_size: 1\nmodel: tiny\nstrategy: [ag_rs, a2a]"),
            Rules{"world_size > 1 for a2a"});
}

TEST(Legality, AVerdictNamesTheNumbersAndTheReason) {
  std::set<std::string> rules;
  for (const LegalityVerdict& verdict :
       verdicts("world_size: 4\ntensor_parallel_size: 8\nmodel: llama-70b")) {
    EXPECT_TRUE(rules.emplace(verdict.rule).second) << verdict.rule << " twice";
    if (verdict.rule != "tensor_parallel_size > num_kv_heads") continue;
    EXPECT_EQ(
        verdict.why,
        "num_heads 64, num_kv_heads 8, tensor_parallel_size 8, world_size 4: without replicas "
        "of a KV head there is no copy whose tokens could be spread");
  }
  EXPECT_EQ(rules.count("tensor_parallel_size > num_kv_heads"), 1u);
}

TEST(Legality, RulesOfGqaDoNotApplyToMla) {
  for (const LegalityVerdict& verdict : verdicts("world_size: 2\nmodel: tiny")) {
    EXPECT_EQ(verdict.rule.find("num_kv_heads"), std::string_view::npos) << verdict.rule;
  }
}

}  // namespace
}  // namespace dcp
