#include "reference/combine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dcp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// One element per rank.
CombinedRow combine_scalars(const std::vector<double>& lse, const std::vector<double>& outs,
                            LseBase base = LseBase::kE) {
  const auto n = static_cast<Eigen::Index>(lse.size());
  return combine(Eigen::Map<const Eigen::ArrayXd>(lse.data(), n),
                 Eigen::Map<const Eigen::ArrayXXd>(outs.data(), 1, n), base);
}

// Rank r has n_r equal scores and the value r + 1.
CombinedRow combine_counts(const std::vector<double>& counts, LseBase base) {
  std::vector<double> lse;
  std::vector<double> outs;
  for (const double count : counts) {
    lse.push_back(base == LseBase::kTwo ? std::log2(count) : std::log(count));
    outs.push_back(static_cast<double>(outs.size()) + 1);
  }
  return combine_scalars(lse, outs, base);
}

struct MeanCase {
  std::vector<double> counts;
  double out;
};

TEST(LseCombine, MeanDataHasItsClosedForm) {
  const std::vector<MeanCase> cases = {{{3, 2}, 1.4},         {{2, 1}, 4.0 / 3},
                                       {{4, 3}, 10.0 / 7},    {{3, 2, 2, 2}, 7.0 / 3},
                                       {{1, 1, 1, 0}, 2},     {{2, 1, 1, 1, 1, 1, 1, 1}, 37.0 / 9},
                                       {{3, 2, 2}, 13.0 / 7}, {{64, 36, 0, 0}, 1.36}};
  for (const LseBase base : {LseBase::kE, LseBase::kTwo}) {
    for (const MeanCase& mean : cases) {
      double total = 0;
      for (const double count : mean.counts) total += count;
      const CombinedRow row = combine_counts(mean.counts, base);
      EXPECT_NEAR(row.out[0], mean.out, 1e-14);
      EXPECT_NEAR(row.weighted_magnitude[0], mean.out, 1e-14);
      EXPECT_NEAR(row.lse, base == LseBase::kTwo ? std::log2(total) : std::log(total), 1e-14);
    }
  }
}

TEST(LseCombine, WeightOfTheSmallShardIsItsShareOfTheKeys) {
  const CombinedRow row = combine_counts({3072, 64}, LseBase::kE);
  EXPECT_NEAR(row.weights[1], 0.020408, 5e-7);
  EXPECT_NEAR(combine_scalars({std::log(3072.0), std::log(64.0)}, {0, 1}, LseBase::kTwo).out[0],
              1 / (1 + std::exp2(std::log(48.0))), 1e-14);
}

TEST(LseCombine, NearbyLseDecideTheWeights) {
  EXPECT_NEAR(combine_scalars({37.1, 36.9}, {1, 2}).out[0], 1.450166, 5e-7);
  EXPECT_NEAR(combine_scalars({37.0, 37.0}, {1, 2}).out[0], 1.5, 1e-15);
}

TEST(LseCombine, ScoresOfDifferentSizeWeighByTheirExponential) {
  const CombinedRow row = combine_scalars({4 + std::log(3.0), 2}, {1, 2});
  EXPECT_NEAR(row.weights[0], 0.956835, 5e-7);
  EXPECT_NEAR(row.out[0], 1.043165, 5e-7);
}

TEST(LseCombine, RowThatIsEmptyEverywhereIsExactlyZero) {
  const CombinedRow row = combine_scalars({-kInfinity, -kInfinity}, {kNan, 5});
  EXPECT_EQ(row.out[0], 0);
  EXPECT_EQ(row.weighted_magnitude[0], 0);
  EXPECT_EQ(row.lse, -kInfinity);
  EXPECT_EQ(row.weights.sum(), 0);
}

TEST(LseCombine, NanAndInfiniteLseCountAsEmpty) {
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    const CombinedRow row = combine_scalars({bad, 2.5}, {kNan, 7});
    EXPECT_EQ(row.out[0], 7);
    EXPECT_EQ(row.lse, 2.5);
    EXPECT_EQ(row.weights[0], 0);
    EXPECT_EQ(combine_scalars({bad, bad}, {1, 2}).lse, -kInfinity);
    EXPECT_EQ(combine_scalars({bad}, {1}).out[0], 0);
  }
}

TEST(LseCombine, WeightThatUnderflowsIsExactlyZeroAndItsRowIsNotRead) {
  const CombinedRow row = combine_scalars({0, -200}, {3, kNan});
  EXPECT_EQ(row.out[0], 3);
  EXPECT_EQ(row.weights[1], 0);
  EXPECT_EQ(row.lse, 0);
}

TEST(LseCombine, WeightBecomesZeroBelow126Doublings) {
  EXPECT_EQ(combine_scalars({0, -126}, {1, 1}, LseBase::kTwo).weights[1], 0x1p-126);
  EXPECT_EQ(
      combine_scalars({0, std::nextafter(-126.0f, -127.0f)}, {1, 1}, LseBase::kTwo).weights[1], 0);
  EXPECT_GT(combine_scalars({0, -87.33}, {1, 1}).weights[1], 0);
  EXPECT_EQ(combine_scalars({0, -87.34}, {1, 1}).weights[1], 0);
  EXPECT_EQ(combine_scalars({0, -125}, {1, kInfinity}, LseBase::kTwo).out[0], kInfinity);
}

TEST(LseCombine, InfiniteOutWithATinyWeightStaysInfinite) {
  EXPECT_EQ(combine_scalars({0, -69}, {1, kInfinity}).out[0], kInfinity);
}

TEST(LseCombine, HugeLseDoNotSpoilTheWeights) {
  const double huge = static_cast<float>(-3e38f);
  const CombinedRow row = combine_scalars({huge, huge}, {1, 2});
  EXPECT_EQ(row.out[0], 1.5);
  EXPECT_EQ(row.lse, huge);
  const CombinedRow apart = combine_scalars({-huge, huge}, {1, 2});
  EXPECT_EQ(apart.out[0], 1);
  const CombinedRow by_80 = combine_scalars({-40, 40}, {1, 2}, LseBase::kTwo);
  EXPECT_DOUBLE_EQ(by_80.weights[0], 0x1p-80);
  EXPECT_EQ(by_80.out[0], 2);
}

TEST(LseCombine, WeightsSumToOne) {
  for (const double shift : {-1e30, -4096.5, 0.0, 77.25, 1e6}) {
    const CombinedRow row = combine_scalars({shift, shift + 1.5, shift - 3, shift}, {1, 1, 1, 1});
    EXPECT_NEAR(row.weights.sum(), 1, 1e-15) << shift;
    EXPECT_NEAR(row.out[0], 1, 1e-15) << shift;
  }
}

TEST(LseCombine, MagnitudeAddsWhatCancelsInTheSum) {
  const CombinedRow row = combine_scalars({1, 1}, {3, -3});
  EXPECT_EQ(row.out[0], 0);
  EXPECT_EQ(row.weighted_magnitude[0], 3);
}

TEST(LseCombine, OneRankIsCopied) {
  const CombinedRow row = combine_scalars({-17.3}, {0.1});
  EXPECT_EQ(row.out[0], 0.1);
  EXPECT_EQ(row.lse, -17.3);
}

}  // namespace
}  // namespace dcp
