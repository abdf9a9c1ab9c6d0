#include "kernels/empty_shard_mask.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

// The mask of `batch` over rows of one head whose lse is 1: '.' kept, 'x' masked.
std::string masked_rows(const Batch& batch, int num_rows) {
  Rows lse(DType::kFp32, {num_rows, 1, 1});
  for (int row = 0; row < num_rows; ++row) lse.set(row, 0, 0, 1.0f);
  std::vector<float> masked(static_cast<std::size_t>(num_rows), kNan);
  EmptyShardMask::Params params{};
  params.lse = lse.view();
  params.masked = masked.data();
  const auto empty_ranks = batch.empty_ranks(num_rows);
  params.empty = {empty_ranks.data(), 0};
  params.num_tokens = num_rows;
  params.num_heads = 1;
  EmptyShardMask::run(params);
  std::string rows;
  for (const float value : masked) rows += value == 1.0f ? '.' : value == -kInfinity ? 'x' : '?';
  return rows;
}

TEST(EmptyShardMask, MasksARequestWithoutLocalKeysAndThePaddedTail) {
  EXPECT_EQ(masked_rows({{0, 2}, {3}}, 4), "..xx");
  EXPECT_EQ(masked_rows({{0, 2}, {0}}, 4), "xxxx");
  EXPECT_EQ(masked_rows({{0, 1, 5}, {0, 7}}, 7), "x....xx");
  EXPECT_EQ(masked_rows({{0, 1, 5}, {7, 0}}, 7), ".xxxxxx");
}

TEST(EmptyShardMask, PutsARowOnABoundaryIntoTheRequestThatStartsThere) {
  EXPECT_EQ(masked_rows({{0, 2, 4}, {5, 0}}, 4), "..xx");
  EXPECT_EQ(masked_rows({{0, 2, 4}, {0, 5}}, 4), "xx..");
}

TEST(EmptyShardMask, SkipsRequestsWithoutTokens) {
  EXPECT_EQ(masked_rows({{0, 0, 1, 1, 1, 3}, {0, 4, 0, 0, 6}}, 4), "...x");
  EXPECT_EQ(masked_rows({{0, 0, 1, 1, 1, 3}, {9, 0, 9, 9, 6}}, 4), "x..x");
}

TEST(EmptyShardMask, MasksEveryRowWithoutRequestsAndLooksAtNoLength) {
  const Batch batch{{0}, {}};
  ASSERT_EQ(batch.metadata().seq_lens, nullptr);
  EXPECT_EQ(masked_rows(batch, 3), "xxx");
}

TEST(EmptyShardMask, MasksARowWhoseCausalBoundIsZero) {
  EXPECT_EQ(masked_rows({{0, 3, 4}, {2, 0}, {0, 1, 2, 1}}, 5), "x..xx");
}

TEST(EmptyShardMask, MasksNothingWithoutMetadata) { EXPECT_EQ(masked_rows({{}, {}}, 3), "..."); }

TEST(EmptyShardMask, MovesTheOtherBitsOfAnFp32Lse) {
  Rows lse(DType::kFp32, {1, 5, 1});
  const std::uint32_t bits[] = {0x7F800001u, 0xFFC12345u, 0x7F800000u, 0x00000001u, 0x80000000u};
  for (int h = 0; h < 5; ++h) lse.storage.set_bits(h, bits[h]);
  std::vector<float> masked(5);
  EmptyShardMask::Params params{};
  params.lse = lse.view();
  params.masked = masked.data();
  params.num_tokens = 1;
  params.num_heads = 5;
  EmptyShardMask::run(params);
  for (int h = 0; h < 5; ++h) EXPECT_EQ(std::bit_cast<std::uint32_t>(masked[h]), bits[h]);
}

TEST(EmptyShardMask, WidensA16BitLseExactlyFromAnyLayout) {
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    for (const Layout layout : kLayouts) {
      Rows lse(dtype, {3, 2, 1}, layout);
      for (int i = 0; i < 6; ++i) lse.set(i / 2, i % 2, 0, 1.0f + 0.37f * static_cast<float>(i));
      const Tensor before = lse.storage;
      std::vector<float> masked(6, kNan);
      EmptyShardMask::Params params{};
      params.lse = lse.view();
      params.masked = masked.data();
      params.num_tokens = 3;
      params.num_heads = 2;
      EmptyShardMask::run(params);
      for (int i = 0; i < 6; ++i) ASSERT_EQ(masked[i], lse.get(i / 2, i % 2));
      EXPECT_TRUE(lse.storage == before);
    }
  }
}

}  // namespace
}  // namespace dcp::test
