// What the flags of exchanges hold when these begin: never the epoch of one to come.
#include "strategies/symmetric_buffers.hpp"

#include <gtest/gtest.h>

#include "kernels/direct_lines.hpp"

namespace dcp::test {
namespace {

TEST(SymmetricBuffers, FlagsAndLinesHoldTheLastEpochOfTheirSlot) {
  for (const std::uint32_t num_slots : {1u, 2u, 3u}) {
    for (const std::uint32_t epoch : {0u, 1u, 5u, 0xFFFFFFFCu, 0xFFFFFFFDu}) {
      constexpr std::size_t kPerSlot = 6;
      BufferSpec spec{.name = "lines",
                      .size_bytes = num_slots * kPerSlot * sizeof(ExchangeLine),
                      .lifetime = Lifetime::kSymmetric,
                      .content = Content::kLines};
      const auto words = content_at(spec, epoch, num_slots);
      ASSERT_EQ(words.size() * sizeof(std::uint32_t), spec.size_bytes);
      spec.size_bytes = num_slots * kPerSlot * sizeof(std::uint32_t);
      spec.content = Content::kFlags;
      const auto flags = content_at(spec, epoch, num_slots);
      ASSERT_EQ(flags.size(), num_slots * kPerSlot);
      for (std::size_t i = 0; i < flags.size(); ++i) {
        const auto slot = static_cast<std::uint32_t>(i / kPerSlot);
        EXPECT_EQ(flags[i], flag_at_rest(epoch, slot, num_slots)) << i;
        EXPECT_EQ(words[4 * i + 3], flags[i]) << i;
        for (int word = 0; word < 3; ++word) EXPECT_EQ(words[4 * i + word], 0u);
        std::uint32_t next = epoch;
        for (std::uint32_t k = 0; k < 2 * num_slots; ++k) {
          next = next_epoch(next, num_slots);
          EXPECT_NE(flags[i], next);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dcp::test
