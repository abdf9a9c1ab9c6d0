// The combine, by all-to-all and by scaling each rank's share: both must keep the numeric contract.
#include <gtest/gtest.h>

#include "tests/kernels/combine_case.hpp"

namespace dcp::test {
namespace {

constexpr LseBase kBases[] = {LseBase::kE, LseBase::kTwo};
constexpr DType kDTypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

class Combine : public testing::TestWithParam<Way> {
 protected:
  static void expect_contract(Partials& partials) {
    const Combined actual = combine(partials, GetParam());
    for (int t = 0; t < partials.shape.num_tokens; ++t) {
      for (int h = 0; h < partials.shape.num_heads; ++h) {
        for (int i = 0; i < partials.shape.dim; ++i) {
          const Expected want = expected(partials, t, h, i);
          const double tolerance = ulp(partials.dtype, want.out) + 0x1p-20 * want.magnitude;
          ASSERT_NEAR(actual.out.get(t, h, i), want.out, tolerance) << t << " " << h << " " << i;
        }
        const double lse = expected(partials, t, h, 0).lse;
        if (std::isinf(lse)) {
          ASSERT_EQ(actual.lse.get(t, h), -kInfinity);
        } else {
          ASSERT_NEAR(actual.lse.get(t, h), lse, 0x1p-20 * std::max(1.0, std::abs(lse)));
        }
      }
    }
  }
};

TEST_P(Combine, OfEqualLsesIsTheMean) {
  for (const LseBase base : kBases) {
    Partials partials(4, {2, 4, 8}, DType::kFp32, base);
    for (int rank = 0; rank < 4; ++rank) partials.fill(rank, static_cast<float>(rank + 1), 3.0f);
    const Combined actual = combine(partials, GetParam());
    EXPECT_EQ(actual.out.get(1, 3, 7), 2.5f);
    EXPECT_FLOAT_EQ(actual.lse.get(1, 3), base == LseBase::kE ? 3.0f + std::log(4.0f) : 5.0f);
  }
}

TEST_P(Combine, FollowsTheDominantRank) {
  Partials partials(2, {1, 2, 8}, DType::kBf16);
  partials.fill(0, 100.0f, -30.0f);
  partials.fill(1, 2.0f, 30.0f);
  const Combined actual = combine(partials, GetParam());
  EXPECT_EQ(actual.out.get(0, 0, 0), 2.0f);
  EXPECT_EQ(actual.lse.get(0, 0), 30.0f);
}

TEST_P(Combine, WeighsLsesOneAndTwoAsTheClosedFormSays) {
  for (const LseBase base : kBases) {
    Partials partials(2, {1, 2, 8}, DType::kFp32, base);
    partials.fill(0, 10.0f, 1.0f);
    partials.fill(1, 20.0f, 2.0f);
    const double b = base == LseBase::kE ? std::exp(1.0) : 2.0;
    const Combined actual = combine(partials, GetParam());
    EXPECT_NEAR(actual.out.get(0, 0, 0), (10.0 + 20.0 * b) / (1.0 + b), 20 * 0x1p-23);
    EXPECT_NEAR(actual.lse.get(0, 0), 1.0 + std::log(1.0 + b) / std::log(b), 0x1p-20);
  }
}

TEST_P(Combine, PassesTheOnlyRankThroughExactly) {
  for (const DType dtype : kDTypes) {
    Partials partials(2, {1, 2, 8}, dtype);
    partials.fill(0, kNan, -kInfinity);
    std::mt19937 random(1);
    for (int h = 0; h < 2; ++h) {
      partials.lse[1].set(0, h, 0, -2.75f);
      for (int i = 0; i < 8; ++i) {
        partials.out[1].set(0, h, i, static_cast<float>(random()) * 0x1p-30f);
      }
    }
    const Combined actual = combine(partials, GetParam());
    for (int i = 0; i < 16; ++i) {
      ASSERT_EQ(actual.out.storage.bits(i), partials.out[1].storage.bits(i));
    }
    EXPECT_EQ(actual.lse.get(0, 1), -2.75f);
  }
}

TEST_P(Combine, DoesNotReadThePartialOfAnEmptyShard) {
  for (const float lse : {-kInfinity, kInfinity, kNan}) {
    for (const float stale : {kNan, kInfinity}) {
      Partials partials(4, {3, 4, 16}, DType::kFp16);
      std::mt19937 random(2);
      partials.randomise(random, 1.0f);
      partials.fill(0, stale, lse);
      partials.fill(2, stale, lse);
      expect_contract(partials);
    }
  }
}

TEST_P(Combine, GivesAnUnderflowingRankNoWeight) {
  for (const LseBase base : kBases) {
    Partials partials(2, {1, 2, 8}, DType::kFp32, base);
    partials.fill(0, 1.5f, 0.0f);
    partials.fill(1, kNan, -200.0f);
    const Combined actual = combine(partials, GetParam());
    EXPECT_EQ(actual.out.get(0, 0, 0), 1.5f);
    EXPECT_EQ(actual.lse.get(0, 0), 0.0f);
  }
}

TEST_P(Combine, StillReadsARankAtTheLowestWeight) {
  Partials partials(2, {1, 2, 8}, DType::kFp32, LseBase::kTwo);
  partials.fill(0, 0.0f, 0.0f);
  partials.fill(1, 0x1p100f, -126.0f);
  EXPECT_EQ(combine(partials, GetParam()).out.get(0, 0, 0), 0x1p-26f);
}

TEST_P(Combine, NormalisesHugeLses) {
  for (const LseBase base : kBases) {
    for (const float lse : {-3e38f, 3e38f, 1e6f, -1e6f}) {
      Partials partials(4, {1, 4, 8}, DType::kFp32, base);
      for (int rank = 0; rank < 4; ++rank) partials.fill(rank, 3.0f, lse);
      const Combined actual = combine(partials, GetParam());
      EXPECT_NEAR(actual.out.get(0, 0, 0), 3.0f, 0x1p-22);
      EXPECT_EQ(actual.lse.get(0, 0), lse + (base == LseBase::kE ? std::log(4.0f) : 2.0f));
    }
  }
  Partials apart(2, {1, 2, 8}, DType::kFp32);
  apart.fill(0, 7.0f, 1e4f);
  apart.fill(1, 3.0f, 1e4f - 80.0f);
  expect_contract(apart);
  EXPECT_NEAR(combine(apart, GetParam()).out.get(0, 0, 0), 7.0f, 0x1p-21);
}

TEST_P(Combine, OfAllEmptyRanksIsZeroAndMinusInfinity) {
  for (const DType dtype : kDTypes) {
    Partials partials(3, {2, 3, 8}, dtype);
    partials.fill(0, kNan, -kInfinity);
    partials.fill(1, kInfinity, kNan);
    partials.fill(2, 1.0f, kInfinity);
    const Combined actual = combine(partials, GetParam());
    for (int i = 0; i < 48; ++i) ASSERT_EQ(actual.out.storage.bits(i), 0u);
    for (int i = 0; i < 6; ++i) ASSERT_EQ(actual.lse.storage.get(i), -kInfinity);
  }
}

TEST_P(Combine, OfOneRankIsACopyWithHygiene) {
  Partials partials(1, {4, 2, 24}, DType::kBf16);
  std::mt19937 random(3);
  partials.randomise(random, 10.0f);
  partials.lse[0].set(1, 0, 0, kNan);
  partials.lse[0].set(2, 1, 0, kInfinity);
  const Combined actual = combine(partials, GetParam());
  for (int t = 0; t < 4; ++t) {
    for (int h = 0; h < 2; ++h) {
      const bool is_empty = (t == 1 && h == 0) || (t == 2 && h == 1);
      EXPECT_EQ(actual.lse.get(t, h), is_empty ? -kInfinity : partials.lse[0].get(t, h));
      for (int i = 0; i < 24; ++i) {
        ASSERT_EQ(actual.out.bits(t, h, i), is_empty ? 0u : partials.out[0].bits(t, h, i));
      }
    }
  }
}

TEST_P(Combine, KeepsTheContractForEveryWorldSizeDTypeAndBase) {
  for (const int world_size : {1, 2, 3, 5, 8, 64}) {
    for (const DType dtype : kDTypes) {
      for (const LseBase base : kBases) {
        for (const float spread : {0.5f, 40.0f}) {
          SCOPED_TRACE(testing::Message() << world_size << " ranks, " << name(dtype) << ", base "
                                          << static_cast<int>(base) << ", spread " << spread);
          Partials partials(world_size, {2, world_size, 40}, dtype, base);
          std::mt19937 random(static_cast<unsigned>(world_size));
          partials.randomise(random, spread);
          expect_contract(partials);
        }
      }
    }
  }
}

// Equal partials and lses, but for one rank: roundings that all go the same way.
TEST_P(Combine, KeepsTheContractWhereRoundingsAddUp) {
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(0.5f, 1.0f);
  for (int round = 0; round < 40; ++round) {
    Partials partials(64, {1, 64, 8}, DType::kFp32, LseBase::kTwo);
    const float value = uniform(random);
    const float lse = -uniform(random);
    for (int rank = 0; rank < 64; ++rank) partials.fill(rank, value, rank == 0 ? 0.0f : lse);
    expect_contract(partials);
  }
}

TEST_P(Combine, OfNoTokensTouchesNothing) {
  Partials partials(2, {0, 2, 8}, DType::kBf16);
  combine(partials, GetParam());
}

TEST_P(Combine, LeavesThePartialsAsTheyWere) {
  Partials partials(2, {3, 4, 16}, DType::kBf16);
  std::mt19937 random(5);
  partials.randomise(random, 2.0f);
  partials.lse[0].set(1, 1, 0, kNan);
  const Partials before = partials;
  combine(partials, GetParam());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(partials.out[rank].storage == before.out[rank].storage);
    EXPECT_TRUE(partials.lse[rank].storage == before.lse[rank].storage);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Combine,
                         testing::Values(Way::kA2aInterleaved, Way::kA2aSplit, Way::kCorrectAndAdd),
                         [](const auto& way) {
                           return way.param == Way::kA2aInterleaved ? "A2aInterleaved"
                                  : way.param == Way::kA2aSplit     ? "A2aSplit"
                                                                    : "CorrectAndAdd";
                         });

// 63 terms, each just too small to change the sum so far, are 30 ulp together.
TEST(A2aCombine, DoesNotLoseManySmallRanksBesideALargeOne) {
  Partials partials(64, {1, 64, 8}, DType::kFp32, LseBase::kTwo);
  for (int rank = 0; rank < 64; ++rank) partials.fill(rank, 1.0f, -24.1f);
  partials.fill(0, 1.5f, 0.0f);
  const Expected want = expected(partials, 0, 0, 0);
  EXPECT_NEAR(combine_by_a2a(partials, A2aLayout::kSplit).out.get(0, 0, 0), want.out,
              ulp(DType::kFp32, want.out) + 0x1p-20 * want.magnitude);
}

TEST(A2aCombine, KeepsTheSignOfZeroOfTheOnlyRank) {
  Partials partials(2, {1, 2, 8}, DType::kFp16);
  partials.fill(0, kNan, -kInfinity);
  partials.fill(1, -0.0f, 1.0f);
  EXPECT_EQ(combine_by_a2a(partials, A2aLayout::kSplit).out.storage.bits(3), 0x8000u);
}

TEST(A2aCombine, WritesAnyLayoutAndNothingBesideIt) {
  Partials partials(1, {3, 4, 16}, DType::kBf16);
  std::mt19937 random(6);
  partials.randomise(random, 1.0f);
  const PackedRows packed{3, 1, 4, 16, DType::kBf16, A2aLayout::kInterleaved};
  Tensor recv(DType::kBf16, packed.elements_per_peer());
  A2aPack::Params pack{};
  pack.out = partials.out[0].view();
  pack.lse = partials.lse[0].view();
  pack.send = recv.data();
  pack.num_tokens = 3;
  pack.num_heads = 4;
  pack.head_dim = 16;
  pack.world_size = 1;
  A2aPack::run(pack);
  for (const Layout layout : kLayouts) {
    Rows out(DType::kBf16, {3, 4, 16}, layout);
    Rows want = out;
    for (int i = 0; i < 3 * 4 * 16; ++i) {
      want.set(i / 64, i / 16 % 4, i % 16, partials.out[0].get(i / 64, i / 16 % 4, i % 16));
    }
    A2aCombine::Params params{};
    params.recv = recv.data();
    params.out = out.view();
    params.num_tokens = 3;
    params.heads_per_rank = 4;
    params.head_dim = 16;
    params.world_size = 1;
    A2aCombine::run(params);
    EXPECT_TRUE(out.storage == want.storage) << static_cast<int>(layout);
  }
}

TEST(LseCorrect, ReportsTheHeadsThatItIsAskedFor) {
  Partials partials(2, {3, 4, 8}, DType::kFp32);
  std::mt19937 random(7);
  partials.randomise(random, 1.0f);
  const Combined all = combine_by_correct(partials);
  std::vector<float> lses;
  for (const Rows& rank : partials.lse) {
    for (int i = 0; i < 12; ++i) lses.push_back(rank.storage.get(i));
  }
  Rows scaled(DType::kFp32, {3, 4, 8});
  std::vector<float> lse(6, kNan);
  LseCorrect::Params params{};
  params.lses = lses.data();
  params.out = partials.out[1].view();
  params.scaled = scaled.view();
  params.lse = lse.data();
  params.num_tokens = 3;
  params.num_heads = 4;
  params.head_dim = 8;
  params.world_size = 2;
  params.rank = 1;
  params.first_lse_head = 2;
  params.num_lse_heads = 2;
  LseCorrect::run(params);
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(lse[t * 2], all.lse.get(t, 2));
    EXPECT_EQ(lse[t * 2 + 1], all.lse.get(t, 3));
  }
}

// To the bit, and whatever the empty ranks left: what they report is -inf, and out is not read.
TEST(LseCorrect, TakesARowWithoutTheRanksThatItIsEmptyOn) {
  std::mt19937_64 random(11);
  for (const int world_size : {1, 2, 9, 33, 64}) {
    constexpr int kTokens = 16;
    constexpr int kHeads = 3;
    constexpr int kDim = 8;
    std::normal_distribution<float> normal;
    std::vector<std::uint64_t> empty_ranks(kTokens);
    for (std::uint64_t& word : empty_ranks) word = random() & random();
    empty_ranks[0] = ~std::uint64_t{0};
    empty_ranks[1] = 0;
    std::vector<float> reported;
    std::vector<float> masked;
    for (int rank = 0; rank < world_size; ++rank) {
      for (int row = 0; row < kTokens * kHeads; ++row) {
        const bool is_empty = (empty_ranks[row / kHeads] >> rank & 1) != 0;
        const float stale[] = {kNan, kInfinity, 1e4f};
        reported.push_back(is_empty ? stale[random() % 3] : normal(random));
        masked.push_back(is_empty ? -kInfinity : reported.back());
      }
    }
    for (int rank = 0; rank < world_size; ++rank) {
      Rows out(DType::kFp32, {kTokens, kHeads, kDim});
      for (int i = 0; i < kTokens * kHeads * kDim; ++i) {
        const bool is_empty = (empty_ranks[i / kDim / kHeads] >> rank & 1) != 0;
        out.storage.set(i, is_empty ? kNan : normal(random));
      }
      const auto correct = [&](const std::vector<float>& lses, const std::uint64_t* words) {
        Combined result{Rows(DType::kFp32, {kTokens, kHeads, kDim}),
                        Rows(DType::kFp32, {kTokens, kHeads, 1})};
        LseCorrect::Params params{};
        params.lses = lses.data();
        params.empty_ranks = words;
        params.out = out.view();
        params.scaled = result.out.view();
        params.lse = static_cast<float*>(result.lse.storage.data());
        params.num_tokens = kTokens;
        params.num_heads = kHeads;
        params.head_dim = kDim;
        params.world_size = world_size;
        params.rank = rank;
        params.num_lse_heads = kHeads;
        LseCorrect::run(params);
        return result;
      };
      Combined got = correct(reported, empty_ranks.data());
      Combined want = correct(masked, nullptr);
      EXPECT_TRUE(got.out.storage == want.out.storage) << world_size << " " << rank;
      EXPECT_TRUE(got.lse.storage == want.lse.storage) << world_size << " " << rank;
      EXPECT_EQ(got.out.get(0, 0, 0), 0.0f);
      EXPECT_EQ(got.lse.get(0, 0), -kInfinity);
    }
  }
}

TEST(LseCorrect, TakesAndWritesAnyLayoutAndDType) {
  const std::vector<float> lses = {0.0f, 1.0f, 2.0f, 3.0f, 0.0f, 1.0f, 2.0f, 3.0f};
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      for (const Layout layout : kLayouts) {
        Rows out(from, {1, 4, 8}, layout);
        Rows scaled(to, {1, 4, 8}, kLayouts[5 - static_cast<int>(layout)]);
        Rows want = scaled;
        for (int i = 0; i < 32; ++i) {
          out.set(0, i / 8, i % 8, 0.7f * static_cast<float>(i));
          want.set(0, i / 8, i % 8, 0.5f * out.get(0, i / 8, i % 8));
        }
        LseCorrect::Params params{};
        params.lses = lses.data();
        params.out = out.view();
        params.scaled = scaled.view();
        params.num_tokens = 1;
        params.num_heads = 4;
        params.head_dim = 8;
        params.world_size = 2;
        LseCorrect::run(params);
        ASSERT_TRUE(scaled.storage == want.storage)
            << name(from) << " " << name(to) << " " << static_cast<int>(layout);
      }
    }
  }
}

}  // namespace
}  // namespace dcp::test
