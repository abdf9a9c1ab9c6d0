// What every strategy promises beside the right numbers.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/strategies/variants.hpp"

namespace dcp::test {
namespace {

TEST(Strategies, AReplayGivesTheBitsOfAnEagerStep) {
  for_each_variant([](const auto&, const PartialsCase& partials, const StrategyVariant& variant) {
    PartialsOptions options = variant.options();
    const PartialsResult eager = run_partials(*variant.strategy, partials, options);
    for (const int num_replays : {1, 3}) {
      options.num_replays = num_replays;
      expect_equal_bits(run_partials(*variant.strategy, partials, options), eager);
    }
  });
}

TEST(Strategies, TheOrderOfTheScheduleDoesNotChangeABit) {
  for_each_variant([](const auto&, const PartialsCase& partials, const StrategyVariant& variant) {
    PartialsOptions options = variant.options();
    options.seed = 0;
    options.num_replays = 1;
    const PartialsResult first = run_partials(*variant.strategy, partials, options);
    for (options.seed = 1; options.seed < 20; ++options.seed) {
      expect_equal_bits(run_partials(*variant.strategy, partials, options), first);
    }
  });
}

TEST(Strategies, TheCallersPartialsAreNotWritten) {
  for_each_variant([](const auto&, const PartialsCase& partials, const StrategyVariant& variant) {
    const PartialsResult result = run_partials(*variant.strategy, partials, variant.options());
    for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
      EXPECT_TRUE(result.ranks[rank].partial_out == partials.ranks[rank].out) << "rank " << rank;
      EXPECT_TRUE(result.ranks[rank].partial_lse == partials.ranks[rank].lse) << "rank " << rank;
    }
  });
}

TEST(Strategies, TheStorageOfThePartialsDoesNotMatter) {
  for_each_variant([](PartialsSpec spec, const PartialsCase& partials,
                      const StrategyVariant& variant) {
    const PartialsResult expected = run_partials(*variant.strategy, partials, variant.options());
    for (const Storage storage :
         {Storage::kContiguous, Storage::kHeadPadded, Storage::kHeadMajor}) {
      spec.storage = storage;
      expect_equal_bits(run_partials(*variant.strategy, random_partials(spec), variant.options()),
                        expected);
    }
  });
}

TEST(Strategies, AnLseThatIsNotWantedChangesNothingElse) {
  for_each_variant([](const auto&, const PartialsCase& partials, const StrategyVariant& variant) {
    PartialsOptions options = variant.options();
    PartialsResult with_lse = run_partials(*variant.strategy, partials, options);
    options.return_lse = false;
    const PartialsResult without_lse = run_partials(*variant.strategy, partials, options);
    for (RankCombined& rank : with_lse.ranks) {
      EXPECT_FALSE(rank.lse.empty());
      rank.lse.clear();
    }
    expect_equal_bits(without_lse, with_lse);
  });
}

TEST(Strategies, ReduceScatterAndAllToAllKeepOwnHeadsAndAllReduceKeepsAll) {
  for_each_variant([](const auto&, const PartialsCase& partials, const StrategyVariant& variant) {
    const PartialsResult result = run_partials(*variant.strategy, partials, variant.options());
    const bool keeps_all = variant.strategy->name() == "ag_ar";
    EXPECT_EQ(result.keeps_all_heads, keeps_all);
    const auto heads =
        static_cast<std::size_t>(keeps_all ? partials.num_heads : partials.heads_per_rank());
    for (const RankCombined& rank : result.ranks) {
      EXPECT_EQ(rank.lse.size(), static_cast<std::size_t>(partials.num_tokens) * heads);
      if (!keeps_all) continue;
      EXPECT_TRUE(rank.out == result.ranks.front().out);
      EXPECT_TRUE(bits_of(rank.lse) == bits_of(result.ranks.front().lse));
    }
  });
}

// The rows of the only rank come back bit by bit, a -0 included; masked ones are empty.
TEST(Strategies, OneRankGetsItsOwnRowsBack) {
  for (const DType dtype : kDTypes) {
    PartialsSpec spec{.world_size = 1, .heads_per_rank = 3, .dtype = dtype, .seed = 4};
    PartialsCase partials = random_partials(spec);
    RankPartials& only = partials.ranks.front();
    only.seq_lens = {7, 0, 0, 7};
    for (std::size_t i = 0; i < only.lse.size() / sizeof(float); ++i) {
      store_element(only.lse.data(), DType::kFp32, i, static_cast<float>(i) - 7.5f);
    }
    for (std::size_t i = 0; i < 5 * 3 * 8; ++i) {
      store_element(only.out.data(), dtype, i, i % 5 == 0 ? -0.0f : static_cast<float>(i));
    }
    for (const StrategyVariant& variant : all_variants(dtype)) {
      SCOPED_TRACE(variant.name + " " + std::string(name(dtype)));
      const PartialsResult result = run_partials(*variant.strategy, partials, variant.options());
      const RankCombined& got = result.ranks.front();
      const std::size_t row_bytes = 3 * 8 * size_bytes(dtype);
      for (const std::size_t row : {0, 1, 3}) {
        EXPECT_EQ(std::memcmp(got.out.data() + row * row_bytes, only.out.data() + row * row_bytes,
                              row_bytes),
                  0)
            << "row " << row;
        EXPECT_EQ(got.lse[row * 3], partials.lse_at(0, static_cast<std::int64_t>(row), 0));
      }
      for (const std::size_t row : {2, 4}) {
        EXPECT_EQ(load_element(got.out.data(), dtype, row * 3 * 8), 0.0f) << "row " << row;
        EXPECT_EQ(got.lse[row * 3], -std::numeric_limits<float>::infinity()) << "row " << row;
      }
    }
  }
}

TEST(Strategies, WithoutBoundariesNoRowIsMasked) {
  PartialsCase partials = random_partials({.world_size = 2, .seed = 5});
  for (std::size_t r = 0; r < partials.ranks.size(); ++r) {
    RankPartials& rank = partials.ranks[r];
    rank.seq_lens.clear();
    for (std::size_t i = 0; i < rank.lse.size() / sizeof(float); ++i) {
      store_element(rank.lse.data(), DType::kFp32, i, 0.0f);
    }
    for (std::size_t i = 0; i < rank.out.size() / 2; ++i) {
      store_element(rank.out.data(), partials.dtype, i, static_cast<float>(1 + 2 * r));
    }
  }
  partials.query_start_loc.reset();
  for (const StrategyVariant& variant : all_variants(partials.dtype)) {
    const PartialsResult result = run_partials(*variant.strategy, partials, variant.options());
    for (const RankCombined& rank : result.ranks) {
      for (std::size_t i = 0; i < rank.out.size() / 2; ++i) {
        ASSERT_EQ(load_element(rank.out.data(), partials.dtype, i), 2.0f) << variant.name;
      }
    }
  }
}

TEST(Strategies, WithoutRequestsEveryRowIsEmpty) {
  PartialsCase partials = random_partials({.world_size = 3, .seed = 6});
  partials.query_start_loc = {0};
  for (RankPartials& rank : partials.ranks) rank.seq_lens.clear();
  for (const StrategyVariant& variant : all_variants(partials.dtype)) {
    const PartialsResult result = run_partials(*variant.strategy, partials, variant.options());
    for (const RankCombined& rank : result.ranks) {
      for (std::size_t i = 0; i < rank.out.size() / 2; ++i) {
        ASSERT_EQ(load_element(rank.out.data(), partials.dtype, i), 0.0f) << variant.name;
      }
      for (const float lse : rank.lse) {
        ASSERT_EQ(lse, -std::numeric_limits<float>::infinity()) << variant.name;
      }
    }
  }
}

}  // namespace
}  // namespace dcp::test
