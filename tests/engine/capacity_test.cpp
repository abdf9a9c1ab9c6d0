#include "engine/capacity.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/scenario_reader.hpp"

namespace dcp {
namespace {

Scenario read(const std::string& rest) {
  return parse_scenario("test.yaml", "schema: 1\nworld_size: 2\nmodel: tiny\n" + rest);
}

constexpr const char* kBatches = "batches: {a: {seq_lens: [5, 3]}, b: {seq_lens: [1, 2, 9]}}\n";

TEST(Capacity, DefaultsToTheLargestOfSizesAndBatches) {
  EXPECT_EQ(make_capacity(read(kBatches)).max_num_tokens, 3);
  EXPECT_EQ(make_capacity(read(std::string("graph: {capture_sizes: [8, 2]}\n") + kBatches))
                .max_num_tokens,
            8);
  EXPECT_EQ(
      make_capacity(read(std::string(kBatches) + "steps: [{capture: [16]}]\n")).max_num_tokens, 16);
}

TEST(Capacity, CapturesOneGraphForEachBatchsRowsByDefault) {
  EXPECT_EQ(capture_sizes(read("batches: {a: {seq_lens: [5, 3]}, b: {seq_lens: [1]}, c: {seq_lens: "
                               "[4, 4]}}\n")),
            (std::vector<std::int64_t>{2, 1}));
}

TEST(Capacity, VllmSizesEndAtTwiceTheLargestBatch) {
  const Scenario scenario = read(
      "graph: {capture_sizes: vllm}\nbatches: {a: {seq_lens: [9, 9, 9, 9, 9, 9, 9], "
      "query_start_loc: [0, 2, 4, 6, 8, 10, 12, 14]}}\n");
  EXPECT_EQ(capture_sizes(scenario), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24}));
}

// min(max_batched_tokens, max(max_seqs * max(1 + spec, decode_query_len), largest capture size)).
TEST(Capacity, FollowsTheEnginesSizeRule) {
  const auto rows = [](const std::string& rule) {
    return make_capacity(
               read("graph: {capture_sizes: [8], max_num_tokens: " + rule + "}\n" + kBatches))
        .max_num_tokens;
  };
  EXPECT_EQ(rows("{max_batched_tokens: 64, max_seqs: 6, spec: 2, decode_query_len: 1}"), 18);
  EXPECT_EQ(rows("{max_batched_tokens: 64, max_seqs: 6, spec: 0, decode_query_len: 4}"), 24);
  EXPECT_EQ(rows("{max_batched_tokens: 64, max_seqs: 2, spec: 0, decode_query_len: 1}"), 8);
  EXPECT_EQ(rows("{max_batched_tokens: 5, max_seqs: 6, spec: 2, decode_query_len: 1}"), 5);
}

TEST(Capacity, TheErrorNamesTheMissingRowsAndTheRule) {
  const Capacity capacity = make_capacity(
      read(std::string("graph: {max_num_tokens: {max_batched_tokens: 64, max_seqs: 2, spec: 1, "
                       "decode_query_len: 1}}\n") +
           kBatches));
  EXPECT_NO_THROW(require_capacity(capacity, 4, 4));
  try {
    require_capacity(capacity, 9, 1);
    FAIL() << "9 rows do not fit in 4";
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), "capacity");
    EXPECT_EQ(error.why(),
              "the step needs 9 rows, the workspace holds 4 (min(max_batched_tokens 64, "
              "max(max_seqs 2 * max(1 + spec 1, decode_query_len 1), largest capture size 3))): 5 "
              "rows are missing");
  }
}

TEST(Capacity, PagesCoverTheLargestBatchOfAnyRank) {
  // tiny has pages of 4 tokens. Batch b: 9 tokens are 5 on rank 0, two pages; 1 and 2 take one
  // each.
  const Capacity capacity = make_capacity(read(kBatches));
  EXPECT_EQ(capacity.num_blocks, 1 + 4);
  EXPECT_EQ(capacity.pages_per_request, 2);
}

}  // namespace
}  // namespace dcp
