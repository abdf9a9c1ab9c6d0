#include "reference/tolerance.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace dcp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Ulp, IsTheStepOfTheBinadeOfTheRightValue) {
  EXPECT_EQ(ulp(DType::kBf16, 1.0), 0x1p-7);
  EXPECT_EQ(ulp(DType::kBf16, -1.4), 0x1p-7);
  EXPECT_EQ(ulp(DType::kBf16, 1.9999999), 0x1p-7);
  EXPECT_EQ(ulp(DType::kBf16, 2.0), 0x1p-6);
  EXPECT_EQ(ulp(DType::kFp16, 1.0), 0x1p-10);
  EXPECT_EQ(ulp(DType::kFp16, -65504.0), 32.0);
  EXPECT_EQ(ulp(DType::kFp32, 1.0), 0x1p-23);
  EXPECT_EQ(ulp(DType::kFp32, 0.75), 0x1p-24);
}

TEST(Ulp, IsTheSmallestSubnormalWhereValuesAreSubnormal) {
  EXPECT_EQ(ulp(DType::kFp16, 0.0), 0x1p-24);
  EXPECT_EQ(ulp(DType::kFp16, 0x1p-15), 0x1p-24);
  EXPECT_EQ(ulp(DType::kFp16, 0x1p-14), 0x1p-24);
  EXPECT_EQ(ulp(DType::kFp16, 0x1p-13), 0x1p-23);
  EXPECT_EQ(ulp(DType::kFp16, 1e-30), 0x1p-24);
  EXPECT_EQ(ulp(DType::kBf16, 0.0), 0x1p-133);
  EXPECT_EQ(ulp(DType::kBf16, 0x1p-126), 0x1p-133);
  EXPECT_EQ(ulp(DType::kBf16, 0x1p-125), 0x1p-132);
  EXPECT_EQ(ulp(DType::kFp32, 0.0), 0x1p-149);
  EXPECT_EQ(ulp(DType::kFp32, 1e-300), 0x1p-149);
}

// The distance to the next pattern is the definition; every positive 16-bit value is tried.
TEST(Ulp, IsTheDistanceToTheNextValue) {
  const auto check = [](auto storage) {
    using T = decltype(storage);
    for (std::uint16_t bits = 0; std::isfinite(to_float(T{static_cast<std::uint16_t>(bits + 1)}));
         ++bits) {
      const double value = to_float(T{bits});
      const double next = to_float(T{static_cast<std::uint16_t>(bits + 1)});
      ASSERT_EQ(ulp(kDTypeOf<T>, value), next - value) << std::hex << bits;
    }
  };
  check(Bf16{});
  check(Fp16{});
}

TEST(Ulp, OfWhatIsNoNumberIsNoNumber) {
  EXPECT_EQ(ulp(DType::kBf16, -kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(ulp(DType::kBf16, std::nan(""))));
}

TEST(UnitRoundoff, IsHalfAStepAtOne) {
  EXPECT_EQ(unit_roundoff(DType::kBf16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(DType::kFp16), 0x1p-11);
  EXPECT_EQ(unit_roundoff(DType::kFp32), 0x1p-24);
}

TEST(CombineTolerance, OneRoundingAllowsOneUlpAndTheAccumulation) {
  const CombineTolerance bf16{
      .rounding = OutputRounding::kOnce, .world_size = 8, .dtype = DType::kBf16};
  EXPECT_EQ(bf16.out(1.5, 3.0), 0x1p-7 + 48 * 0x1p-24);
  EXPECT_EQ(bf16.out(0.0, 0.0), 0x1p-133);
}

TEST(CombineTolerance, RoundedTermsAllowOneRoundoffPerRank) {
  const CombineTolerance fp16{
      .rounding = OutputRounding::kTerms, .world_size = 4, .dtype = DType::kFp16};
  EXPECT_EQ(fp16.out(1.5, 3.0), 12 * 0x1p-11 + 4 * 0x1p-24 + 48 * 0x1p-24);
  const CombineTolerance fp32{
      .rounding = OutputRounding::kTerms, .world_size = 2, .dtype = DType::kFp32};
  EXPECT_EQ(fp32.out(-7.0, 1.0), 2 * 0x1p-24 + 2 * 0x1p-149 + 16 * 0x1p-24);
}

TEST(LseTolerance, GrowsWithTheMagnitudeAboveOne) {
  EXPECT_EQ(combined_lse_tolerance(0.25), 0x1p-20);
  EXPECT_EQ(combined_lse_tolerance(-8.0), 0x1p-17);
  EXPECT_EQ(partial_lse_tolerance(DType::kFp32, 0.5), 0x1p-16 + 0x1p-25);
  EXPECT_EQ(partial_lse_tolerance(DType::kFp32, -8.0), 0x1p-13 + 0x1p-21);
  EXPECT_EQ(partial_lse_tolerance(DType::kBf16, 37.1), 37.1 * 0x1p-16 + 0.125);
}

TEST(PartialTolerance, AllowsOneUlpAndTheErrorOfTheProbabilities) {
  EXPECT_EQ(probability_error(DType::kFp32), 0x1p-18);
  EXPECT_EQ(probability_error(DType::kBf16), 0x1p-8);
  EXPECT_EQ(partial_out_tolerance(DType::kFp16, 2.5, 0x1p-18, 4.0), 0x1p-9 + 0x1p-16);
}

TEST(Overflow, BeginsWhereOneStepPassesTheLargestValue) {
  EXPECT_TRUE(may_overflow(DType::kFp16, 65525.0, 32.0));
  EXPECT_TRUE(may_overflow(DType::kFp16, -70000.0, 0.0));
  EXPECT_FALSE(may_overflow(DType::kFp16, 65472.0, 32.0));
  EXPECT_FALSE(may_overflow(DType::kBf16, 70000.0, 512.0));
  EXPECT_TRUE(may_overflow(DType::kBf16, 0x1p128, 0.0));
}

}  // namespace
}  // namespace dcp
