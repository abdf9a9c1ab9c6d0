#include "kernels/lse_weights.hpp"

#include <gtest/gtest.h>

#include "kernels/team.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

TEST(LseWeights, TakeNanAndPlusInfinityForEmpty) {
  EXPECT_EQ(sanitize_lse(kNan), -kInfinity);
  EXPECT_EQ(sanitize_lse(-kNan), -kInfinity);
  EXPECT_EQ(sanitize_lse(kInfinity), -kInfinity);
  EXPECT_EQ(sanitize_lse(-kInfinity), -kInfinity);
  EXPECT_EQ(sanitize_lse(-3e38f), -3e38f);
  EXPECT_EQ(sanitize_lse(3e38f), 3e38f);
}

TEST(LseWeights, AreCutOffWhereTheRealExponentPassesMinus126) {
  const double log2_e = 1.0 / std::log(2.0);
  float difference = -87.3366f;
  int num_dropped = 0;
  for (int i = 0; i < 100; ++i, difference = std::nextafter(difference, 0.0f)) {
    const bool is_dropped = static_cast<double>(difference) * log2_e < -126.0;
    ASSERT_EQ(lse_weight<LseBase::kE>(difference, 0.0f) == 0.0f, is_dropped) << difference;
    num_dropped += is_dropped;
  }
  EXPECT_GT(num_dropped, 0);
  EXPECT_LT(num_dropped, 100);
  EXPECT_EQ(lse_weight<LseBase::kTwo>(-126.0f, 0.0f), 0x1p-126f);
  EXPECT_EQ(lse_weight<LseBase::kTwo>(std::nextafter(-126.0f, -200.0f), 0.0f), 0.0f);
}

TEST(LseWeights, SumToOneAtTheLargestMagnitudes) {
  for (const float lse : {-3e38f, -1e10f, 0.0f, 1e10f, 3e38f}) {
    const auto lse_of = [&](int) { return lse; };
    const LseSum total = sum_lses<LseBase::kE, OneLane>(7, lse_of);
    EXPECT_EQ(total.sum, 7.0f);
    EXPECT_EQ(rank_factor<LseBase::kE>(lse, total), 1.0f / 7.0f);
  }
}

TEST(LseWeights, OfNoReportingRankAreZero) {
  const auto lse_of = [](int rank) {
    return rank == 0 ? kNan : rank == 1 ? kInfinity : -kInfinity;
  };
  const LseSum total = sum_lses<LseBase::kTwo, OneLane>(3, lse_of);
  EXPECT_EQ(total.sum, 0.0f);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(rank_factor<LseBase::kTwo>(lse_of(rank), total), 0.0f);
  }
  EXPECT_EQ(combined_lse<LseBase::kTwo>(total), -kInfinity);
}

}  // namespace
}  // namespace dcp::test
