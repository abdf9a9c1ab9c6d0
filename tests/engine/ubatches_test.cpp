#include "engine/ubatches.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace dcp {
namespace {

Scenario with_ubatches(int count) {
  Scenario scenario;
  scenario.world_size = scenario.tensor_parallel_size = 2;
  scenario.graph.ubatches = count;
  return scenario;
}

std::vector<std::int64_t> starts(const std::vector<Ubatch>& ubatches) {
  std::vector<std::int64_t> rows;
  for (const Ubatch& ubatch : ubatches) rows.push_back(ubatch.first_row);
  return rows;
}

using Rows = std::vector<std::int64_t>;

TEST(Ubatches, TheRuleCutsEveryFloorOfThePaddedRows) {
  const Scenario three = with_ubatches(3);
  EXPECT_EQ(starts(cut_ubatches(three, {}, 11, 11)), (Rows{0, 3, 6}));
  EXPECT_EQ(cut_ubatches(three, {}, 11, 11).back().num_rows, 5) << "the last takes the rest";
  EXPECT_EQ(starts(cut_ubatches(three, {}, 2, 2)), Rows{0}) << "the floor is 0";
}

// 2 * min = graph - 1, graph, graph + 1.
TEST(Ubatches, OneWhereTheLastWouldHoldNoRealRow) {
  const Scenario two = with_ubatches(2);
  EXPECT_EQ(starts(cut_ubatches(two, {}, 3, 8)), Rows{0});
  EXPECT_EQ(starts(cut_ubatches(two, {}, 4, 8)), Rows{0});
  EXPECT_EQ(starts(cut_ubatches(two, {}, 5, 8)), (Rows{0, 4}));
}

TEST(Ubatches, GivenStartsAreTakenAsTheyAre) {
  Batch batch;
  batch.ubatch_starts = Rows{0, 5};
  EXPECT_EQ(cut_ubatches(with_ubatches(2), batch, 3, 8), (std::vector<Ubatch>{{0, 5}, {5, 3}}));
}

TEST(Ubatches, AnIdBeyondTheLastIsRefused) {
  Batch batch;
  batch.ubatch_starts = Rows{0, 1, 2};
  try {
    cut_ubatches(with_ubatches(2), batch, 4, 4);
    FAIL() << "three starts, two ubatches";
  } catch (const StepError& error) {
    EXPECT_STREQ(error.what(), "ubatch_out_of_range: ubatch 2 of 2: ubatch_starts names 3");
  }
}

// Every row of the parts is the row of the whole: same request, same bound, same slot.
TEST(Ubatches, PartsKeepEachRowsRequestBoundAndSlot) {
  const RankBatch whole{.query_start_loc = {0, 2, 2, 6, 7},
                        .seq_lens = {9, 4, 20, 3},
                        .causal_bounds = {1, 2, 17, 18, 19, 20, 3},
                        .empty_ranks = {3, 2, 0, 0, 0, 0, 1},
                        .block_table = {{1}, {2}, {3, 4}, {5}},
                        .slot_mapping = {10, -1, 30, -1, 31, -1, 50},
                        .new_seq_lens = {2, 0, 4, 1},
                        .new_bounds = {1, 2, 1, 2, 3, 4, 1},
                        .new_first_rows = {0, 2, 2, 6}};
  const auto request_of = [](const std::vector<std::int32_t>& boundaries, std::int64_t row) {
    std::size_t request = 0;
    while (request + 1 < boundaries.size() && boundaries[request + 1] <= row) ++request;
    return request;
  };
  for (const std::int64_t cut : {1, 2, 3, 5, 6}) {
    for (const Ubatch& ubatch : {Ubatch{0, cut}, Ubatch{cut, 9 - cut}}) {
      const RankBatch part = ubatch_of(whole, ubatch);
      for (std::int64_t row = 0; row < ubatch.num_rows && ubatch.first_row + row < 7; ++row) {
        const auto of_whole = static_cast<std::size_t>(ubatch.first_row + row);
        EXPECT_EQ(request_of(part.query_start_loc, row),
                  request_of(whole.query_start_loc, ubatch.first_row + row));
        EXPECT_EQ(part.causal_bounds[row], whole.causal_bounds[of_whole]);
        EXPECT_EQ(part.empty_ranks[row], whole.empty_ranks[of_whole]);
        EXPECT_EQ(part.slot_mapping[row], whole.slot_mapping[of_whole]);
        EXPECT_EQ(part.new_bounds[row], whole.new_bounds[of_whole]);
      }
      EXPECT_EQ(part.seq_lens, whole.seq_lens);
      EXPECT_EQ(part.new_seq_lens, whole.new_seq_lens);
      EXPECT_EQ(part.new_first_rows, whole.new_first_rows) << "rows of the step, not of the part";
    }
  }
}

}  // namespace
}  // namespace dcp
