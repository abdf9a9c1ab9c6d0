#include "reference/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dcp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Comparison compare(double got, double want, double tolerance) {
  Comparison comparison;
  comparison.add({}, got, want, tolerance);
  return comparison;
}

TEST(Comparison, PassesUpToTheToleranceAndNotBeyond) {
  EXPECT_TRUE(compare(1.5, 1.25, 0.25).passed());
  EXPECT_EQ(compare(1.5, 1.25, 0.25).max_error_over_tolerance, 1.0);
  EXPECT_FALSE(compare(1.5, 1.25, std::nextafter(0.25, 0)).passed());
  EXPECT_EQ(compare(1.0, 1.5, 0.25).max_abs_error, 0.5);
  EXPECT_EQ(compare(1.0, 1.5, 0.25).max_error_over_tolerance, 2.0);
}

TEST(Comparison, ToleranceZeroWantsEquality) {
  EXPECT_TRUE(compare(0.0, 0.0, 0).passed());
  EXPECT_TRUE(compare(-0.0, 0.0, 0).passed());
  EXPECT_FALSE(compare(1e-45, 0.0, 0).passed());
  EXPECT_EQ(compare(1e-45, 0.0, 0).max_error_over_tolerance, kInfinity);
}

TEST(Comparison, EqualInfinitiesAreEqual) {
  for (const double infinity : {kInfinity, -kInfinity}) {
    const Comparison comparison = compare(infinity, infinity, 0);
    EXPECT_TRUE(comparison.passed());
    EXPECT_EQ(comparison.max_abs_error, 0);
    EXPECT_EQ(comparison.max_error_over_tolerance, 0);
  }
}

TEST(Comparison, AnInfinityIsNeverNearAnythingElse) {
  for (const double tolerance : {0.0, 1e300, kInfinity}) {
    EXPECT_FALSE(compare(kInfinity, -kInfinity, tolerance).passed());
    EXPECT_FALSE(compare(-kInfinity, 3.0, tolerance).passed());
    EXPECT_FALSE(compare(3.0, kInfinity, tolerance).passed());
  }
}

TEST(Comparison, NanNeverPasses) {
  for (const double tolerance : {0.0, 1.0, kInfinity}) {
    EXPECT_FALSE(compare(kNan, 1.0, tolerance).passed());
    EXPECT_FALSE(compare(1.0, kNan, tolerance).passed());
    EXPECT_FALSE(compare(kNan, kNan, tolerance).passed());
    EXPECT_EQ(compare(kNan, 1.0, tolerance).max_abs_error, kInfinity);
    EXPECT_EQ(compare(kNan, 1.0, tolerance).max_error_over_tolerance, kInfinity);
  }
  EXPECT_FALSE(compare(1.0, 2.0, kNan).passed());
}

TEST(Comparison, RemembersTheLowestBadPlaceInAnyOrder) {
  const ElementPlace low{.layer = 0, .rank = 2, .row = 5, .head = 1, .element = 3};
  const ElementPlace high{.layer = 1, .rank = 0, .row = 0, .head = 0, .element = -1};
  Comparison comparison;
  comparison.add(high, 2, 1, 0.5);
  comparison.add(low, 4, 1, 0.5);
  comparison.add({.layer = 0}, 1, 1, 0.5);
  ASSERT_TRUE(comparison.first_bad);
  EXPECT_EQ(comparison.first_bad->at, low);
  EXPECT_EQ(comparison.first_bad->got, 4);
  EXPECT_EQ(comparison.first_bad->want, 1);
}

TEST(Comparison, MergeKeepsTheWorstAndTheLowest) {
  Comparison first;
  first.add({.row = 4}, 3, 1, 1);
  Comparison second;
  second.add({.row = 2}, 10, 1, 8);
  first.merge(second);
  EXPECT_EQ(first.max_abs_error, 9);
  EXPECT_EQ(first.max_error_over_tolerance, 2);
  EXPECT_EQ(first.first_bad->at.row, 2);
  Comparison untouched;
  untouched.merge(first);
  EXPECT_EQ(untouched.first_bad->at.row, 2);
  first.merge(Comparison{});
  EXPECT_EQ(first.first_bad->at.row, 2);
}

}  // namespace
}  // namespace dcp
