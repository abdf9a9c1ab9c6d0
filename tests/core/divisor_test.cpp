#include "core/divisor.hpp"

#include <gtest/gtest.h>

#include <random>

namespace dcp {
namespace {

constexpr std::uint32_t kEnd = 1u << 31;

TEST(Divisor, DividesAsTheOperatorDoes) {
  std::mt19937 random(11);
  std::vector<std::uint32_t> values = {1, 2, 3, 5, 7, 12, 96, 641, 65535, 65536, kEnd - 1, kEnd};
  for (int i = 0; i < 200; ++i) values.push_back(1 + random() % kEnd);
  for (const std::uint32_t value : values) {
    const Divisor divisor(value);
    EXPECT_EQ(divisor.value(), value);
    std::vector<std::uint32_t> numbers = {0, 1, value - 1, value, kEnd - 1, kEnd - 2};
    for (const std::uint64_t times : {2ull, 3ull, 1000ull, 65537ull}) {
      const std::uint64_t multiple = times * value;
      if (multiple < kEnd) numbers.push_back(static_cast<std::uint32_t>(multiple));
      if (multiple <= kEnd) numbers.push_back(static_cast<std::uint32_t>(multiple - 1));
    }
    for (int i = 0; i < 200; ++i) numbers.push_back(random() % kEnd);
    for (const std::uint32_t n : numbers) {
      if (n >= kEnd) continue;
      ASSERT_EQ(divisor.of(n), n / value) << n << " / " << value;
    }
  }
}

}  // namespace
}  // namespace dcp
