#include "core/sharding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/packed_rows.hpp"

namespace dcp {
namespace {

constexpr std::array<std::int64_t, 6> kInterleaves = {1, 2, 3, 4, 16, 64};
constexpr int kMaxWorldSize = 8;

// Long enough that every rank of the widest stripe gets a second and a third turn.
std::int64_t max_length(int world_size, std::int64_t interleave) {
  return 3 * world_size * interleave + 5;
}

// tokens[r]: what rank r owns of tokens 0..length-1, dealt out one by one like cards.
std::vector<std::vector<std::int64_t>> deal(int world_size, std::int64_t interleave,
                                            std::int64_t length) {
  std::vector<std::vector<std::int64_t>> tokens(static_cast<std::size_t>(world_size));
  std::size_t rank = 0;
  std::int64_t in_hand = 0;
  for (std::int64_t token = 0; token < length; ++token) {
    tokens[rank].push_back(token);
    if (++in_hand < interleave) continue;
    in_hand = 0;
    rank = (rank + 1) % tokens.size();
  }
  return tokens;
}

template <class Body>
void for_each_sharding(Body&& body) {
  for (int world_size = 1; world_size <= kMaxWorldSize; ++world_size) {
    for (const std::int64_t interleave : kInterleaves) {
      SCOPED_TRACE(testing::Message() << "N " << world_size << ", I " << interleave);
      body(world_size, interleave);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(Sharding, LocalLengthsCountTheTokensThatWereDealt) {
  for_each_sharding([](int world_size, std::int64_t interleave) {
    const std::int64_t longest = max_length(world_size, interleave);
    const auto tokens = deal(world_size, interleave, longest);
    for (std::int64_t length = 0; length <= longest; ++length) {
      for (int rank = 0; rank < world_size; ++rank) {
        const auto& owned = tokens[static_cast<std::size_t>(rank)];
        const auto count = std::lower_bound(owned.begin(), owned.end(), length) - owned.begin();
        ASSERT_EQ(local_length({rank, world_size, interleave}, length), count)
            << "rank " << rank << ", length " << length;
      }
    }
  });
}

TEST(Sharding, EveryTokenHasItsOwnerAndItsPlaceThere) {
  for_each_sharding([](int world_size, std::int64_t interleave) {
    const auto tokens = deal(world_size, interleave, max_length(world_size, interleave));
    for (int rank = 0; rank < world_size; ++rank) {
      const Shard shard{rank, world_size, interleave};
      std::int64_t index = 0;
      for (const std::int64_t token : tokens[static_cast<std::size_t>(rank)]) {
        ASSERT_EQ(owner_of(shard, token), rank) << "token " << token;
        ASSERT_EQ(local_index(shard, token), index) << "token " << token;
        ASSERT_EQ(global_token(shard, index), token) << "rank " << rank << ", index " << index;
        ++index;
      }
    }
  });
}

TEST(Sharding, CausalBoundOfARowCountsTheOwnedTokensUpToItsOwnPosition) {
  for_each_sharding([](int world_size, std::int64_t interleave) {
    const std::int64_t longest = std::min<std::int64_t>(max_length(world_size, interleave), 300);
    const auto tokens = deal(world_size, interleave, longest);
    for (std::int64_t query_len = 1; query_len <= 5; ++query_len) {
      for (std::int64_t length = query_len; length <= longest; ++length) {
        for (std::int64_t j = 0; j < query_len; ++j) {
          const std::int64_t position = length - query_len + j;  // of the row's own token
          const std::int64_t bound = global_causal_bound(length, query_len, j);
          for (int rank = 0; rank < world_size; ++rank) {
            const auto& owned = tokens[static_cast<std::size_t>(rank)];
            const auto seen = std::upper_bound(owned.begin(), owned.end(), position);
            ASSERT_EQ(local_length({rank, world_size, interleave}, bound), seen - owned.begin())
                << "rank " << rank << ", length " << length << ", query " << j << " of "
                << query_len;
          }
        }
      }
    }
  });
}

TEST(Sharding, RequestOfLengthZeroShowsNoKeysToAnyQuery) {
  for (std::int64_t query_len = 1; query_len <= 5; ++query_len) {
    for (std::int64_t j = 0; j + 1 < query_len; ++j) {
      EXPECT_EQ(global_causal_bound(0, query_len, j), 0);
    }
    EXPECT_EQ(global_causal_bound(0, query_len, query_len - 1), 0);
  }
}

TEST(Sharding, LengthsWrittenByHandAreRight) {
  const auto lengths = [](int world_size, std::int64_t interleave, std::int64_t length) {
    std::vector<std::int64_t> local;
    for (int rank = 0; rank < world_size; ++rank) {
      local.push_back(local_length({rank, world_size, interleave}, length));
    }
    return local;
  };
  using Lengths = std::vector<std::int64_t>;
  EXPECT_EQ(lengths(2, 1, 5), (Lengths{3, 2}));
  EXPECT_EQ(lengths(2, 1, 1), (Lengths{1, 0}));
  EXPECT_EQ(lengths(4, 1, 9), (Lengths{3, 2, 2, 2}));
  EXPECT_EQ(lengths(4, 1, 3), (Lengths{1, 1, 1, 0}));
  EXPECT_EQ(lengths(4, 2, 5), (Lengths{2, 2, 1, 0}));
  EXPECT_EQ(lengths(2, 64, 64), (Lengths{64, 0}));
  EXPECT_EQ(lengths(2, 64, 65), (Lengths{64, 1}));
  EXPECT_EQ(lengths(4, 64, 100), (Lengths{64, 36, 0, 0}));
}

TEST(Sharding, LengthsBeyond40BitsKeepEveryToken) {
  const std::int64_t length = (std::int64_t{1} << 41) + 12345;
  for (const std::int64_t interleave : kInterleaves) {
    for (const int world_size : {1, 3, 8}) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        sum += local_length({rank, world_size, interleave}, length);
      }
      EXPECT_EQ(sum, length) << "N " << world_size << ", I " << interleave;

      const Shard owner{owner_of({0, world_size, interleave}, length - 1), world_size, interleave};
      const std::int64_t last = local_index(owner, length - 1);
      EXPECT_EQ(last, local_length(owner, length) - 1);
      EXPECT_EQ(global_token(owner, last), length - 1);
    }
  }
}

TEST(Sharding, InterleaveOfHalfTheIntegerRangeDoesNotOverflow) {
  const std::int64_t interleave = std::int64_t{1} << 40;
  EXPECT_EQ(local_length({0, 8, interleave}, interleave + 7), interleave);
  EXPECT_EQ(local_length({1, 8, interleave}, interleave + 7), 7);
  EXPECT_EQ(local_length({7, 8, interleave}, interleave + 7), 0);
  EXPECT_EQ(owner_of({0, 8, interleave}, 7 * interleave), 7);
}

TEST(PagedCache, SlotsFollowTheBlockTable) {
  const std::vector<std::int32_t> block_table = {7, 0, 3};
  for (std::int64_t index = 0; index < 12; ++index) {
    const std::int64_t page = block_table[static_cast<std::size_t>(index / 4)];
    EXPECT_EQ(slot_of(block_table, 4, index), page * 4 + index % 4) << "index " << index;
  }
  EXPECT_EQ(slot_of(block_table, 4, 5), 1);
  EXPECT_EQ(slot_of(block_table, 4, 11), 15);
}

TEST(PagedCache, SlotsBeyond31BitsStayPositive) {
  const std::vector<std::int32_t> block_table = {1 << 25, 2147483647};
  EXPECT_EQ(slot_of(block_table, 64, 0), 2147483648);
  EXPECT_EQ(slot_of(block_table, 64, 127), 2147483647LL * 64 + 63);
}

TEST(PagedCache, PagesAreRoundedUp) {
  for (std::int64_t block_size : {1, 4, 16, 64}) {
    std::int64_t pages = 0;
    for (std::int64_t length = 0; length < 4 * block_size; ++length) {
      EXPECT_EQ(num_pages(length, block_size), pages) << length << " tokens of " << block_size;
      if (length % block_size == 0) ++pages;  // the next token opens a page
      EXPECT_EQ(num_pages(length + 1, block_size), pages);
    }
  }
  EXPECT_EQ(num_pages(std::int64_t{1} << 41, 64), std::int64_t{1} << 35);
}

TEST(CapturedSizes, RowsArePaddedToTheSmallestSizeThatHoldsThem) {
  const std::vector<std::int64_t> sizes = {8, 1, 4, 2};
  const std::vector<std::int64_t> padded = {1, 1, 2, 4, 4, 8, 8, 8, 8, -1, -1};
  for (std::size_t rows = 0; rows < padded.size(); ++rows) {
    EXPECT_EQ(padded_rows(sizes, static_cast<std::int64_t>(rows)), padded[rows]) << rows;
  }
}

TEST(CapturedSizes, WithoutGraphsNothingIsPadded) { EXPECT_EQ(padded_rows({}, 1), -1); }

TEST(PackedRows, OffsetsBeyond31BitsStayPositive) {
  PackedRows rows{.num_tokens = 32769,
                  .world_size = 1,
                  .heads_per_rank = 128,
                  .head_dim = 512,
                  .dtype = DType::kBf16,
                  .layout = A2aLayout::kSplit};
  EXPECT_EQ(rows.payload_offset(0, 32767, 0), 2147418112);
  EXPECT_EQ(rows.payload_offset(0, 32768, 0), 2147483648);
  EXPECT_EQ(rows.lse_offset(0, 32768, 1), 32769LL * 128 * 512 + (32768LL * 128 + 1) * 2);
  rows.layout = A2aLayout::kInterleaved;
  EXPECT_EQ(rows.payload_offset(0, 32768, 0), 32768LL * 128 * 514);
  EXPECT_EQ(rows.lse_offset(0, 32768, 0), 32768LL * 128 * 514 + 512);
}

}  // namespace
}  // namespace dcp
