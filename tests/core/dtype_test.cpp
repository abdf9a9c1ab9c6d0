#include "core/dtype.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace dcp {
namespace {

struct Format {
  DType dtype;
  int mantissa_bits;  // stored
  int exponent_bits;
};

constexpr Format kBf16{DType::kBf16, 7, 8};
constexpr Format kFp16{DType::kFp16, 10, 5};

// What the bits mean, read field by field in float64.
double value_of(const Format& format, std::uint32_t bits) {
  const std::uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t exponents = (1u << format.exponent_bits) - 1;
  const std::uint32_t exponent = (bits >> format.mantissa_bits) & exponents;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (exponent == exponents) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  const double significand = exponent ? (1u << format.mantissa_bits) + mantissa : mantissa;
  const int power = (exponent ? static_cast<int>(exponent) : 1) - bias - format.mantissa_bits;
  return sign * std::ldexp(significand, power);
}

std::uint32_t bits_of(const Format& format, float value) {
  std::uint16_t bits = 0xDEAD;
  store_element(&bits, format.dtype, 0, value);
  return bits;
}

float decode(const Format& format, std::uint32_t bits) {
  const auto stored = static_cast<std::uint16_t>(bits);
  return load_element(&stored, format.dtype, 0);
}

class SixteenBitDType : public testing::TestWithParam<Format> {};

TEST_P(SixteenBitDType, EveryPatternDecodesToItsValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double want = value_of(GetParam(), bits);
    const float got = decode(GetParam(), bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << std::hex << bits;
    } else {
      ASSERT_EQ(got, want) << std::hex << bits;
      ASSERT_EQ(std::signbit(got), bits >> 15 == 1) << std::hex << bits;
    }
  }
}

TEST_P(SixteenBitDType, EveryPatternSurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const std::uint32_t back = bits_of(GetParam(), decode(GetParam(), bits));
    if (std::isnan(value_of(GetParam(), bits))) {
      ASSERT_TRUE(std::isnan(value_of(GetParam(), back))) << std::hex << bits;
    } else {
      ASSERT_EQ(back, bits) << std::hex << bits;
    }
  }
}

// Between neighbours, zero and the overflow included: below the middle to the lower, above it to
// the upper, in the middle to the even one. The middle is a float for both formats.
TEST_P(SixteenBitDType, EveryMiddleRoundsToEvenAndItsNeighboursToTheNearest) {
  const Format format = GetParam();
  const std::uint32_t infinity = bits_of(format, std::numeric_limits<float>::infinity());
  for (const std::uint32_t sign : {0u, 0x8000u}) {
    for (std::uint32_t lower = 0; lower < infinity; ++lower) {
      const std::uint32_t upper = lower + 1;
      const double low = value_of(format, lower);
      const double step =
          upper < infinity ? value_of(format, upper) - low : low - value_of(format, lower - 1);
      const auto middle = static_cast<float>(low + step / 2);
      ASSERT_EQ(middle, low + step / 2) << "the middle is no float";
      const float direction = sign ? -1.0f : 1.0f;
      const float below = std::nextafter(middle, 0.0f);
      const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
      const std::uint32_t even = lower % 2 == 0 ? lower : upper;
      ASSERT_EQ(bits_of(format, direction * middle), sign | even) << std::hex << lower;
      ASSERT_EQ(bits_of(format, direction * below), sign | lower) << std::hex << lower;
      ASSERT_EQ(bits_of(format, direction * above), sign | upper) << std::hex << lower;
    }
  }
}

TEST_P(SixteenBitDType, EveryNanStaysANan) {
  for (const std::uint32_t payload : {1u, 0x1FFFu, 0x7FFFu, 0x8000u, 0x400000u, 0x7FFFFFu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const float nan = std::bit_cast<float>(sign | 0x7F800000u | payload);
      EXPECT_TRUE(std::isnan(round_to(GetParam().dtype, nan))) << std::hex << payload;
    }
  }
}

TEST_P(SixteenBitDType, FloatsBelowHalfTheSmallestSubnormalBecomeZeroOfTheirSign) {
  const double half = value_of(GetParam(), 1) / 2;
  for (const float value :
       {std::numeric_limits<float>::denorm_min(), std::nextafter(static_cast<float>(half), 0.0f)}) {
    EXPECT_EQ(bits_of(GetParam(), value), 0x0000u);
    EXPECT_EQ(bits_of(GetParam(), -value), 0x8000u);
  }
}

INSTANTIATE_TEST_SUITE_P(DType, SixteenBitDType, testing::Values(kBf16, kFp16),
                         [](const auto& test) { return std::string(name(test.param.dtype)); });

TEST(DType, Fp16OverflowsAt65520) {
  EXPECT_EQ(round_to(DType::kFp16, 65504.0f), 65504.0f);
  EXPECT_EQ(round_to(DType::kFp16, 65519.0f), 65504.0f);
  EXPECT_EQ(round_to(DType::kFp16, 65520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_to(DType::kFp16, -65519.0f), -65504.0f);
  EXPECT_EQ(round_to(DType::kFp16, -65520.0f), -std::numeric_limits<float>::infinity());
}

TEST(DType, Bf16OverflowsHalfAStepAboveItsLargestValue) {
  const float largest = std::bit_cast<float>(0x7F7F0000u);
  EXPECT_EQ(round_to(DType::kBf16, std::bit_cast<float>(0x7F7F7FFFu)), largest);
  EXPECT_EQ(round_to(DType::kBf16, std::bit_cast<float>(0x7F7F8000u)),
            std::numeric_limits<float>::infinity());
}

// No infinity: the largest exponent is one of numbers, but for the NaN 0x7F.
double value_of_fp8(std::uint32_t bits) {
  const std::uint32_t exponent = (bits >> 3) & 15;
  const double significand = exponent ? 8 + (bits & 7) : bits & 7;
  const double sign = bits >> 7 ? -1.0 : 1.0;
  return sign * std::ldexp(significand, (exponent ? static_cast<int>(exponent) : 1) - 7 - 3);
}

std::uint8_t fp8_of(float value) {
  std::uint8_t bits = 0xDE;
  store_element(&bits, DType::kFp8E4m3, 0, value);
  return bits;
}

TEST(DType, EveryFp8PatternDecodesToItsValueAndBack) {
  for (std::uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto stored = static_cast<std::uint8_t>(bits);
    const float got = load_element(&stored, DType::kFp8E4m3, 0);
    ASSERT_EQ(fp8_of(got), bits) << std::hex << bits;
    if ((bits & 0x7F) == 0x7F) {
      ASSERT_TRUE(std::isnan(got)) << std::hex << bits;
    } else {
      ASSERT_EQ(got, value_of_fp8(bits)) << std::hex << bits;
      ASSERT_EQ(std::signbit(got), bits >> 7 == 1) << std::hex << bits;
    }
  }
}

TEST(DType, Fp8RoundsToTheNearestAndFromTheMiddleToEven) {
  for (const std::uint32_t sign : {0u, 0x80u}) {
    for (std::uint32_t lower = 0; lower < 0x7E; ++lower) {
      const double low = value_of_fp8(sign | lower);
      const auto middle = static_cast<float>((low + value_of_fp8(sign | (lower + 1))) / 2);
      const float away = sign ? -1000.0f : 1000.0f;
      const std::uint32_t even = lower % 2 == 0 ? lower : lower + 1;
      ASSERT_EQ(fp8_of(middle), sign | even) << std::hex << lower;
      ASSERT_EQ(fp8_of(std::nextafter(middle, 0.0f)), sign | lower) << std::hex << lower;
      ASSERT_EQ(fp8_of(std::nextafter(middle, away)), sign | (lower + 1)) << std::hex << lower;
    }
  }
}

TEST(DType, Fp8SaturatesAndKeepsNans) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {448.0f, 465.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(round_to(DType::kFp8E4m3, value), 448.0f);
    EXPECT_EQ(round_to(DType::kFp8E4m3, -value), -448.0f);
  }
  for (const std::uint32_t bits : {0x7F800001u, 0x7FC0DEADu, 0xFFFFFFFFu}) {
    EXPECT_TRUE(std::isnan(round_to(DType::kFp8E4m3, std::bit_cast<float>(bits))));
  }
}

TEST(DType, Fp32KeepsEveryBit) {
  for (const std::uint32_t bits :
       {0x00000001u, 0x80000000u, 0x3F800001u, 0x7F7FFFFFu, 0x7FC0DEADu, 0xFF800000u}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(round_to(DType::kFp32, std::bit_cast<float>(bits))),
              bits);
  }
}

TEST(DType, ElementsAreStoredAtTheirIndexAndNowhereElse) {
  std::array<std::uint16_t, 3> halves = {1, 2, 3};
  store_element(halves.data(), DType::kFp16, 1, 1.0f);
  EXPECT_EQ(halves, (std::array<std::uint16_t, 3>{1, 0x3C00, 3}));
  std::array<float, 3> floats = {1, 2, 3};
  store_element(floats.data(), DType::kFp32, 2, 0.1f);
  EXPECT_EQ(floats, (std::array<float, 3>{1, 2, 0.1f}));
  EXPECT_EQ(load_element(floats.data(), DType::kFp32, 1), 2.0f);
}

}  // namespace
}  // namespace dcp
