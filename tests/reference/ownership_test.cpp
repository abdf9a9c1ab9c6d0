#include "reference/ownership.hpp"

#include <gtest/gtest.h>

namespace dcp {
namespace {

Scenario sharded(int world_size, std::int64_t interleave) {
  Scenario scenario;
  scenario.world_size = world_size;
  scenario.interleave = interleave;
  return scenario;
}

Batch batch_of(std::vector<std::int64_t> seq_lens) {
  Batch batch;
  batch.seq_lens = std::move(seq_lens);
  return batch;
}

std::vector<int> requests(const std::vector<RowKeys>& rows) {
  std::vector<int> result;
  for (const RowKeys& row : rows) result.push_back(row.request);
  return result;
}

std::vector<std::int64_t> num_keys(const std::vector<RowKeys>& rows) {
  std::vector<std::int64_t> result;
  for (const RowKeys& row : rows) result.push_back(row.num_keys);
  return result;
}

TEST(Ownership, TokensAreDealtInStripes) {
  EXPECT_EQ(list_owners(sharded(2, 1), batch_of({5}), 0), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(list_owners(sharded(3, 2), batch_of({1, 8}), 1),
            (std::vector<int>{0, 0, 1, 1, 2, 2, 0, 0}));
  EXPECT_EQ(list_owners(sharded(4, 64), batch_of({3}), 0), (std::vector<int>{0, 0, 0}));
}

TEST(Ownership, HandGivenLengthsAreRangesInRankOrder) {
  Batch batch = batch_of({2, 6});
  batch.local_seq_lens = {{2, 1}, {0, 3}, {0, 2}};
  EXPECT_EQ(list_owners(sharded(3, 1), batch, 0), (std::vector<int>{0, 0}));
  EXPECT_EQ(list_owners(sharded(3, 1), batch, 1), (std::vector<int>{0, 1, 1, 1, 2, 2}));
}

TEST(Ownership, TokensOfARankAreInGlobalOrder) {
  const auto tokens = list_tokens({0, 2, 2, 0, -1}, 3);
  EXPECT_EQ(tokens, (std::vector<std::vector<std::ptrdiff_t>>{{0, 3}, {}, {1, 2}}));
}

TEST(RowKeys, EachRequestHasOneRowWhereTheBatchGivesNoBoundaries) {
  const auto rows = list_row_keys(batch_of({5, 0, 3}), 5);
  EXPECT_EQ(requests(rows), (std::vector<int>{0, 1, 2, -1, -1}));
  EXPECT_EQ(num_keys(rows), (std::vector<std::int64_t>{5, 0, 3, 0, 0}));
}

TEST(RowKeys, LaterQueriesSeeMoreKeys) {
  Batch batch = batch_of({5, 7});
  batch.query_start_loc = {{0, 3, 4}};
  EXPECT_EQ(num_keys(list_row_keys(batch, 4)), (std::vector<std::int64_t>{3, 4, 5, 7}));
}

TEST(RowKeys, RepeatedBoundariesSkipRequestsWithoutRows) {
  Batch batch = batch_of({4, 9, 6});
  batch.query_start_loc = {{0, 1, 1, 3}};
  const auto rows = list_row_keys(batch, 4);
  EXPECT_EQ(requests(rows), (std::vector<int>{0, 2, 2, -1}));
  EXPECT_EQ(num_keys(rows), (std::vector<std::int64_t>{4, 5, 6, 0}));
}

TEST(RowKeys, RequestOfLengthZeroHasOnlyEmptyRows) {
  Batch batch = batch_of({0, 2});
  batch.query_start_loc = {{0, 3, 4}};
  EXPECT_EQ(num_keys(list_row_keys(batch, 4)), (std::vector<std::int64_t>{0, 0, 0, 2}));
}

TEST(RowKeys, WithoutRequestsEveryRowIsPadding) {
  Batch batch;
  EXPECT_EQ(requests(list_row_keys(batch, 2)), (std::vector<int>{-1, -1}));
  batch.query_start_loc = {{0}};
  EXPECT_EQ(requests(list_row_keys(batch, 2)), (std::vector<int>{-1, -1}));
}

}  // namespace
}  // namespace dcp
