#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/direct_read_rows.hpp"
#include "kernels/direct_store_rows.hpp"

namespace dcp {
namespace {

// Two rows of 16 bytes for two ranks, whose slots hold three rows of two ranks.
struct Case {
  static constexpr std::int64_t kRow = 16;
  std::string rows = std::string(kRow, 'a') + std::string(kRow, 'b');
  std::string targets[2] = {std::string(12 * kRow, '.'), std::string(12 * kRow, '.')};
  ExchangeState state{.epoch = 5, .published = 4, .consumed = 4, .num_done = 0};

  DirectStoreRows::Params store() {
    DirectStoreRows::Params params{};
    params.rows = rows.data();
    for (int peer = 0; peer < 2; ++peer) params.target.at[peer] = targets[peer].data();
    params.state = &state;
    params.num_rows = 2;
    params.row_bytes = kRow;
    params.row_stride = 2 * kRow;
    params.first_byte = kRow;
    params.slot_bytes = 6 * kRow;
    params.world_size = 2;
    params.rank = 1;
    params.num_slots = 2;
    return params;
  }
};

// One letter for each row of 16 bytes, which must be equal ones.
std::string letters(const std::string& bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const bool is_one = bytes.substr(at, 16) == std::string(16, bytes[at]);
    text += is_one ? bytes[at] : '?';
  }
  return text;
}

TEST(DirectStoreRows, ARowOfEveryStrideGoesIntoTheSlotOfTheEpochOnEveryRank) {
  Case test;
  DirectStoreRows::run(test.store());
  for (const std::string& target : test.targets) EXPECT_EQ(letters(target), ".......a.b..");
  test.state.epoch = 6;
  DirectStoreRows::Params dense = test.store();
  dense.row_stride = Case::kRow;
  dense.first_byte = 3 * Case::kRow;
  DirectStoreRows::run(dense);
  for (const std::string& target : test.targets) EXPECT_EQ(letters(target), "...ab..a.b..");
}

TEST(DirectStoreRows, DeclaresItsRowsOfEverySlotAndRank) {
  Case test;
  const DirectStoreRows::Params params = test.store();
  std::vector<Access> accesses;
  DirectStoreRows::accesses(params, accesses);
  ASSERT_EQ(accesses.size(), 6u);
  EXPECT_EQ(accesses[0].data, params.rows);
  EXPECT_EQ(accesses[0].size_bytes, 32u);
  for (std::size_t i = 0; i < 4; ++i) {
    const Access& access = accesses[2 + i];
    EXPECT_EQ(access.mode, Mode::kWrite);
    EXPECT_EQ(access.data, test.targets[i / 2].data() + (i % 2 * 6 + 1) * Case::kRow);
    EXPECT_EQ(access.size_bytes, 3u * Case::kRow) << "from the first row to the last";
  }
}

TEST(DirectStoreRows, NoRowsAreNoStores) {
  Case test;
  DirectStoreRows::Params params = test.store();
  params.num_rows = 0;
  DirectStoreRows::run(params);
  std::vector<Access> accesses;
  DirectStoreRows::accesses(params, accesses);
  EXPECT_EQ(letters(test.targets[0]), "............");
  EXPECT_TRUE(std::all_of(accesses.begin(), accesses.end(),
                          [](const Access& access) { return access.size_bytes == 0; }));
}

TEST(DirectReadRows, TakesTheFirstRowsOfEachSenderOutOfTheSlot) {
  std::string slots;
  for (const char row : std::string("abcdefghijkl")) slots += std::string(16, row);
  std::string gathered(5 * 16, '.');
  ExchangeState state{.epoch = 7, .published = 7, .consumed = 6, .num_done = 0};
  DirectReadRows::Params params{.slots = slots.data(),
                                .gathered = gathered.data(),
                                .state = &state,
                                .num_rows = 2,
                                .max_num_rows = 3,
                                .row_bytes = 16,
                                .world_size = 2,
                                .num_slots = 2};
  DirectReadRows::run(params);
  EXPECT_EQ(letters(gathered), "ghjk.");
  EXPECT_EQ(state.consumed, 7u);
  state.epoch = 8;
  DirectReadRows::run(params);
  EXPECT_EQ(letters(gathered), "abde.");
}

}  // namespace
}  // namespace dcp
