#include "engine/batch_layout.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/error.hpp"
#include "kernels/batch_metadata.hpp"

namespace dcp {
namespace {

Scenario scenario_of(int world_size, std::int64_t interleave = 1) {
  Scenario scenario;
  scenario.world_size = world_size;
  scenario.tensor_parallel_size = world_size;
  scenario.interleave = interleave;
  return scenario;
}

Batch batch_of(std::vector<std::int64_t> seq_lens,
               std::optional<std::vector<std::int64_t>> query_start_loc = {}) {
  Batch batch;
  batch.seq_lens = std::move(seq_lens);
  batch.query_start_loc = std::move(query_start_loc);
  return batch;
}

std::string refusal(const Scenario& scenario, const Batch& batch) {
  try {
    make_batch_layout(scenario, batch);
  } catch (const StepError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(BatchLayout, OneRowPerRequestIsTheDefault) {
  const BatchLayout layout = make_batch_layout(scenario_of(2), batch_of({5, 3, 0}));
  EXPECT_EQ(layout.query_start_loc, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(layout.rows, 3);
  EXPECT_EQ(layout.local_seq_lens[0], (std::vector<std::int64_t>{3, 2, 0}));
  EXPECT_EQ(layout.local_seq_lens[1], (std::vector<std::int64_t>{2, 1, 0}));
}

TEST(BatchLayout, NoRequestsAtAllAreLegal) {
  Batch batch = batch_of({}, std::vector<std::int64_t>{0});
  batch.rows = 4;
  const BatchLayout layout = make_batch_layout(scenario_of(2), batch);
  EXPECT_EQ(layout.rows, 4);
  EXPECT_EQ(layout.num_requests(), 0);
}

TEST(BatchLayout, EveryFaultIsRefusedByName) {
  const Scenario two = scenario_of(2);
  EXPECT_EQ(refusal(two, batch_of({5, 3}, {{0, 1, 2}})), "accepted");
  EXPECT_EQ(refusal(two, batch_of({5, 3}, {{0, 2, 1}})),
            "qsl_not_monotone: query_start_loc falls from 2 to 1 at index 2");
  EXPECT_EQ(refusal(two, batch_of({5, 3}, {{1, 2, 3}})),
            "qsl_not_monotone: query_start_loc must start at 0, not at 1");
  EXPECT_EQ(refusal(two, batch_of({5, 3}, {{0, 1}})),
            "qsl_without_seq_lens: query_start_loc must hold one boundary more than there are "
            "requests: 3, not 2");
  EXPECT_EQ(refusal(two, batch_of({5, -1})), "negative_local_len: request 1 has length -1");
  EXPECT_EQ(refusal(two, batch_of({2}, {{0, 3}})),
            "seq_len_below_query_len: request 0 has length 2 but 3 query tokens");
  EXPECT_EQ(refusal(two, batch_of({0}, {{0, 3}})), "accepted") << "a padding request";
  EXPECT_EQ(refusal(two, batch_of({3'000'000'000})),
            "capacity: request 0 has length 3000000000, metadata holds 32-bit lengths");
}

TEST(BatchLayout, HandGivenShardsMustSumToTheLength) {
  Batch batch = batch_of({10});
  batch.local_seq_lens = {{7}, {2}};
  EXPECT_EQ(refusal(scenario_of(2), batch),
            "local_lens_mismatch: local_seq_lens of request 0 sum to 9, not to 10");
  batch.local_seq_lens = {{7}, {}};
  EXPECT_EQ(refusal(scenario_of(2), batch),
            "local_lens_mismatch: local_seq_lens must hold one length per request: 1, not 0");
  batch.local_seq_lens = {{12}, {-2}};
  EXPECT_EQ(refusal(scenario_of(2), batch),
            "negative_local_len: rank 1 has length -2 of request 0");
}

TEST(BatchLayout, RowsMustHoldTheQueryTokens) {
  Batch batch = batch_of({5, 3, 1});
  batch.rows = 2;
  EXPECT_EQ(refusal(scenario_of(2), batch), "capacity: 2 rows cannot hold 3 query tokens");
}

// All keys of a request, over all ranks: each token once, on its owner, at its local index.
TEST(BatchLayout, EveryTokenHasOneOwnerAndOnePlace) {
  for (const std::int64_t interleave : {1, 2, 3, 64}) {
    for (int world_size = 1; world_size <= 5; ++world_size) {
      const BatchLayout layout =
          make_batch_layout(scenario_of(world_size, interleave), batch_of({131, 1, 40}));
      for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
        std::set<std::int64_t> tokens;
        for (int rank = 0; rank < world_size; ++rank) {
          const Shard shard{rank, world_size, interleave};
          std::int64_t next = 0;
          for (const LocalKey& key : local_keys(layout, shard, r, 0, layout.seq_lens[r])) {
            EXPECT_EQ(key.index, next++);
            EXPECT_EQ(owner_of_token(layout, shard, r, key.token), rank);
            EXPECT_TRUE(tokens.insert(key.token).second);
          }
          EXPECT_EQ(next, layout.local_seq_lens[rank][r]);
        }
        EXPECT_EQ(static_cast<std::int64_t>(tokens.size()), layout.seq_lens[r]);
      }
    }
  }
}

TEST(RankBatch, SlotsOfNewTokensAreDisjointAndOnlyOnTheOwner) {
  const BatchLayout layout =
      make_batch_layout(scenario_of(3, 2), batch_of({17, 4, 33}, {{0, 3, 7, 8}}));
  std::vector<int> owners(8, 0);
  for (int rank = 0; rank < 3; ++rank) {
    const Shard shard{rank, 3, 2};
    const RankBatch batch = make_rank_batch(layout, shard, 4, 64);
    std::set<std::int64_t> slots;
    for (std::size_t row = 0; row < batch.slot_mapping.size(); ++row) {
      const std::int64_t slot = batch.slot_mapping[row];
      if (slot < 0) continue;
      ++owners[row];
      EXPECT_GE(slot, 4) << "page 0 is never used";
      EXPECT_TRUE(slots.insert(slot).second);
    }
  }
  EXPECT_EQ(owners, std::vector<int>(8, 1));
}

TEST(RankBatch, PagesAreDisjointAndNotInOrder) {
  const BatchLayout layout = make_batch_layout(scenario_of(1), batch_of({30, 9, 16}));
  const RankBatch batch = make_rank_batch(layout, {0, 1, 1}, 4, 16);
  std::vector<std::int32_t> pages;
  for (const auto& request : batch.block_table) {
    pages.insert(pages.end(), request.begin(), request.end());
  }
  EXPECT_EQ(pages.size(), 8u + 3u + 4u);
  EXPECT_EQ(std::set<std::int32_t>(pages.begin(), pages.end()).size(), pages.size());
  EXPECT_FALSE(std::is_sorted(pages.begin(), pages.end()));
  EXPECT_EQ(*std::min_element(pages.begin(), pages.end()), 1);
  EXPECT_EQ(*std::max_element(pages.begin(), pages.end()), 15);
}

TEST(RankBatch, EveryPageButTheFirstIsDealtOnce) {
  for (const std::int64_t num_blocks : {2, 3, 8, 9}) {
    const BatchLayout layout = make_batch_layout(scenario_of(1), batch_of({4 * (num_blocks - 1)}));
    std::vector<std::int32_t> pages =
        make_rank_batch(layout, {0, 1, 1}, 4, num_blocks).block_table.at(0);
    std::sort(pages.begin(), pages.end());
    ASSERT_EQ(pages.size(), static_cast<std::size_t>(num_blocks - 1));
    for (std::size_t i = 0; i < pages.size(); ++i) {
      EXPECT_EQ(pages[i], static_cast<std::int32_t>(i + 1)) << num_blocks << " blocks";
    }
  }
}

TEST(RankBatch, TooFewPagesAreRefused) {
  const BatchLayout layout = make_batch_layout(scenario_of(1), batch_of({30}));
  EXPECT_EQ(pages_needed(layout, 0, 4), 9);
  EXPECT_NO_THROW(make_rank_batch(layout, {0, 1, 1}, 4, 9));
  EXPECT_THROW(make_rank_batch(layout, {0, 1, 1}, 4, 8), StepError);
}

// The bound of a row is the number of the rank's tokens before it, counted one by one.
TEST(RankBatch, CausalBoundsCountOwnTokensBeforeTheRow) {
  for (const std::int64_t interleave : {1, 3}) {
    for (std::int64_t length = 3; length < 40; ++length) {
      const Scenario scenario = scenario_of(4, interleave);
      const BatchLayout layout = make_batch_layout(scenario, batch_of({length}, {{0, 3}}));
      for (int rank = 0; rank < 4; ++rank) {
        const RankBatch batch = make_rank_batch(layout, {rank, 4, interleave}, 4, 64);
        for (std::int64_t j = 0; j < 3; ++j) {
          std::int32_t count = 0;
          for (std::int64_t token = 0; token <= length - 3 + j; ++token) {
            count += (token / interleave) % 4 == rank;
          }
          EXPECT_EQ(batch.causal_bounds[j], count) << length << " " << rank << " " << j;
        }
      }
    }
  }
}

// Bit r of a row's word is what rank r finds of the row in its own metadata; every rank has it.
void expect_empty_ranks_as_each_rank_finds_them(const BatchLayout& layout, int world_size,
                                                std::int64_t interleave) {
  std::vector<RankBatch> batches;
  for (int rank = 0; rank < world_size; ++rank) {
    batches.push_back(make_rank_batch(layout, {rank, world_size, interleave}, 4, 256));
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const RankBatch& own = batches[static_cast<std::size_t>(rank)];
    const BatchMetadata metadata{.query_start_loc = own.query_start_loc.data(),
                                 .seq_lens = own.seq_lens.data(),
                                 .causal_bounds = own.causal_bounds.data(),
                                 .num_requests = static_cast<std::int32_t>(own.seq_lens.size())};
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      for (const RankBatch& batch : batches) {
        const std::uint64_t word = batch.empty_ranks.at(static_cast<std::size_t>(row));
        EXPECT_EQ((word >> rank & 1) != 0, row_is_empty(metadata, row)) << rank << " row " << row;
      }
    }
  }
}

TEST(RankBatch, EmptyRanksAreThoseWhoseOwnMetadataSaysSo) {
  for (const bool split : {false, true}) {
    for (const int world_size : {1, 2, 8, 64}) {
      for (const std::int64_t interleave : {1, 3}) {
        Scenario scenario = scenario_of(world_size, interleave);
        if (split) scenario.attention_split = AttentionSplit::kContextThenNew;
        Batch batch = batch_of({9, 0, 2, 30, 1, 200}, {{0, 5, 7, 9, 9, 10, 14}});
        batch.rows = 17;
        expect_empty_ranks_as_each_rank_finds_them(make_batch_layout(scenario, batch), world_size,
                                                   interleave);
      }
    }
  }
  Batch given = batch_of({6, 3, 5}, {{0, 4, 5, 8}});
  given.local_seq_lens = {{0, 3, 4}, {2, 0, 0}, {4, 0, 1}};
  expect_empty_ranks_as_each_rank_finds_them(make_batch_layout(scenario_of(3), given), 3, 1);
}

// Where new tokens are attended to apart, ranks see the context alone, and new tokens see each
// other.
TEST(RankBatch, BoundsOfASplitAttentionLeaveOutThisStepsTokens) {
  Scenario scenario = scenario_of(2);
  scenario.attention_split = AttentionSplit::kContextThenNew;
  Batch batch = batch_of({9, 0, 2, 6}, {{0, 3, 5, 7, 8}});
  batch.rows = 10;
  const BatchLayout layout = make_batch_layout(scenario, batch);
  const RankBatch even = make_rank_batch(layout, {0, 2, 1}, 4, 64);
  const RankBatch odd = make_rank_batch(layout, {1, 2, 1}, 4, 64);
  using Int32s = std::vector<std::int32_t>;
  EXPECT_EQ(even.causal_bounds, (Int32s{3, 3, 3, 0, 0, 0, 0, 3, 0, 0}));
  EXPECT_EQ(odd.causal_bounds, (Int32s{3, 3, 3, 0, 0, 0, 0, 2, 0, 0}));
  EXPECT_EQ(even.new_seq_lens, (Int32s{3, 0, 2, 1}));
  EXPECT_EQ(even.new_bounds, (Int32s{1, 2, 3, 0, 0, 1, 2, 1, 0, 0}));
  EXPECT_EQ(odd.new_bounds, even.new_bounds);
  EXPECT_EQ(even.new_first_rows, (Int32s{0, 3, 5, 7}));
  scenario.attention_split = AttentionSplit::kNone;
  const RankBatch whole = make_rank_batch(make_batch_layout(scenario, batch), {0, 2, 1}, 4, 64);
  EXPECT_EQ(whole.causal_bounds, (Int32s{4, 4, 5, 0, 0, 1, 1, 3, 0, 0}));
  EXPECT_EQ(even.slot_mapping, whole.slot_mapping) << "new tokens are stored all the same";
}

}  // namespace
}  // namespace dcp
