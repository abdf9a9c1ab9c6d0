// The operations of the direct exchange, each alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "core/packed_rows.hpp"
#include "kernels/direct_advance.hpp"
#include "kernels/direct_dispatch.hpp"
#include "kernels/direct_publish.hpp"
#include "kernels/direct_read.hpp"
#include "kernels/direct_wait.hpp"
#include "kernels/slot_rows.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ExchangeState, EpochsWrapWhereTheirSlotsDo) {
  for (std::uint32_t slots = 1; slots <= 16; ++slots) {
    const std::uint32_t last = last_epoch(slots);
    EXPECT_EQ(next_epoch(last, slots), 0u);
    EXPECT_EQ(next_epoch(last - 1, slots), last);
    EXPECT_EQ(slot_of(last, slots), slots - 1);
    EXPECT_GT(last, 0xFFFFFFFFu - slots);
  }
  EXPECT_EQ(last_epoch(2), 0xFFFFFFFFu);
}

TEST(ExchangeState, AFlagAtRestIsTheLastEpochOfItsSlotAndNeverTheNext) {
  for (const std::uint32_t slots : {1u, 2u, 3u, 16u}) {
    for (const std::uint32_t epoch : {0u, 1u, 2u, 77u, last_epoch(slots) - 1, last_epoch(slots)}) {
      std::uint32_t next = epoch;
      for (std::uint32_t i = 0; i < slots; ++i) {
        next = next_epoch(next, slots);
        const std::uint32_t flag = flag_at_rest(epoch, slot_of(next, slots), slots);
        EXPECT_EQ(slot_of(flag, slots), slot_of(next, slots));
        EXPECT_NE(flag, next) << "epoch " << epoch << " of " << slots;
      }
      EXPECT_EQ(flag_at_rest(epoch, slot_of(epoch, slots), slots), epoch);
    }
  }
}

// In one kernel an exchange is noted as consumed before it waits; in steps after.
TEST(ExchangeState, ALostExchangeWasNotConsumedThoughItsKernelHadNotedIt) {
  const auto last = [](std::uint32_t epoch, std::uint32_t consumed, std::uint32_t num_lost) {
    return last_consumed({.epoch = epoch,
                          .published = epoch,
                          .consumed = consumed,
                          .num_done = 0,
                          .num_lost = num_lost},
                         2);
  };
  EXPECT_EQ(last(5, 5, 0), 5u);
  EXPECT_EQ(last(5, 4, 0), 4u);  // under way
  EXPECT_EQ(last(5, 5, 3), 4u);
  EXPECT_EQ(last(5, 4, 3), 4u);
  EXPECT_EQ(last(0, 0, 1), last_epoch(2));
  EXPECT_EQ(last(0, last_epoch(2), 1), last_epoch(2));
  EXPECT_EQ(
      last_consumed({.epoch = 5, .published = 5, .consumed = 5, .num_done = 3, .num_lost = 2}, 2),
      5u)
      << "of epoch 6, which not all blocks have begun";
}

TEST(DirectAdvance, CountsOnTheDevice) {
  ExchangeState state{.epoch = 0xFFFFFFFEu, .published = 7, .consumed = 8, .num_done = 0};
  const DirectAdvance::Params params{.state = &state, .num_slots = 2};
  for (const std::uint32_t epoch : {0xFFFFFFFFu, 0u, 1u}) {
    DirectAdvance::run(params);
    EXPECT_EQ(state.epoch, epoch);
  }
  EXPECT_EQ(state.published, 7u);
  EXPECT_EQ(state.consumed, 8u);
}

// What ranks store to each other, written down and not done.
class WrittenStores final : public RemoteStores {
 public:
  struct Made {
    int to;
    const void* at;
    std::size_t size_bytes;
    bool is_release;
  };
  void store(StoreRoute route, void* at, const void*, std::size_t size_bytes) override {
    made.push_back({route.to, at, size_bytes, false});
  }
  void store_polled(StoreRoute route, void* at, const void*, std::size_t size_bytes) override {
    made.push_back({route.to, at, size_bytes, false});
  }
  void store_release(StoreRoute route, std::uint32_t* at, std::uint32_t value) override {
    made.push_back({route.to, at, sizeof(value), true});
    released.push_back(value);
  }
  void acquire(int rank) override { acquired.push_back(rank); }

  std::vector<Made> made;
  std::vector<std::uint32_t> released;
  std::vector<int> acquired;
};

constexpr int kRanks = 2;
constexpr int kHeads = 4;  // two for each rank
constexpr int kDim = 8;
constexpr int kMaxTokens = 5;
constexpr std::uint32_t kSlots = 2;

constexpr SlotRows kRows{kMaxTokens, kRanks, kHeads / kRanks};

// Rank 1 sends three rows in epoch 5, which is slot 1.
struct Dispatched {
  Rows out;
  Rows lse;
  std::vector<Tensor> payload;  // of each rank
  std::vector<Tensor> lse_slots;
  std::vector<std::uint64_t> empty_ranks;
  ExchangeState state{.epoch = 5, .published = 4, .consumed = 4, .num_done = 0};

  explicit Dispatched(DType dtype, DType lse_dtype = DType::kFp32,
                      Layout layout = Layout::kTokenMajor)
      : out(dtype, {3, kHeads, kDim}, layout), lse(lse_dtype, {3, kHeads, 1}, layout) {
    for (int token = 0; token < 3; ++token) {
      for (int head = 0; head < kHeads; ++head) {
        lse.set(token, head, 0, static_cast<float>(token * 10 + head));
        for (int i = 0; i < kDim; ++i) out.set(token, head, i, value(token, head, i));
      }
    }
    const std::int64_t rows = kSlots * kRanks * kMaxTokens * kHeads / kRanks;
    payload.assign(kRanks, Tensor(dtype, rows * kDim));
    lse_slots.assign(kRanks, Tensor(DType::kFp32, rows));
  }

  static float value(int token, int head, int i) {
    return static_cast<float>(token * 64 + head * 8 + i);
  }

  DirectDispatch::Params params(const test::Batch& batch, RemoteStores* stores = nullptr) {
    empty_ranks = batch.empty_ranks(3);
    DirectDispatch::Params params{.out = out.view(),
                                  .lse = lse.view(),
                                  .payload = {},
                                  .lse_slots = {},
                                  .state = &state,
                                  .empty = {empty_ranks.data(), 1},
                                  .stores = stores,
                                  .num_tokens = 3,
                                  .max_num_tokens = kMaxTokens,
                                  .num_heads = kHeads,
                                  .head_dim = kDim,
                                  .world_size = kRanks,
                                  .rank = 1,
                                  .num_slots = kSlots};
    for (int peer = 0; peer < kRanks; ++peer) {
      params.payload.at[peer] = payload[static_cast<std::size_t>(peer)].data();
      params.lse_slots.at[peer] =
          static_cast<float*>(lse_slots[static_cast<std::size_t>(peer)].data());
    }
    return params;
  }

  // Elements of the payload that are not as they were, over all ranks.
  std::int64_t num_written() const {
    std::int64_t count = 0;
    for (const Tensor& tensor : payload) {
      const std::uint32_t before = Tensor(tensor.dtype(), 1).bits(0);
      for (std::size_t i = 0; i < tensor.count(); ++i) {
        count += tensor.bits(static_cast<std::int64_t>(i)) != before ? 1 : 0;
      }
    }
    return count;
  }
};

TEST(DirectDispatch, SendsEachRankTheRowsOfItsHeadsInTheSlotOfTheEpoch) {
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    for (const Layout layout : kLayouts) {
      Dispatched sent(dtype, DType::kFp32, layout);
      DirectDispatch::run(sent.params({}));
      for (int head = 0; head < kHeads; ++head) {
        const auto peer = static_cast<std::size_t>(head / 2);
        for (int token = 0; token < 3; ++token) {
          const std::int64_t row = kRows.row(1, 1, token, head % 2);
          EXPECT_EQ(sent.lse_slots[peer].get(row), static_cast<float>(token * 10 + head));
          for (int i = 0; i < kDim; ++i) {
            ASSERT_EQ(sent.payload[peer].bits(row * kDim + i), sent.out.bits(token, head, i));
          }
        }
      }
      EXPECT_EQ(sent.num_written(), 3 * kHeads * kDim);
    }
  }
}

TEST(DirectDispatch, OfAnEmptyRowOnlyTheLseIsSentAndItSaysSo) {
  Dispatched sent(DType::kBf16);
  for (int head = 0; head < kHeads; ++head) sent.lse.set(1, head, 0, kNan);
  DirectDispatch::run(sent.params({{0, 1, 2}, {4, 0}}));  // row 1 has no keys, row 2 is padding
  for (std::size_t peer = 0; peer < kRanks; ++peer) {
    for (int head = 0; head < 2; ++head) {
      EXPECT_EQ(sent.lse_slots[peer].get(kRows.row(1, 1, 1, head)), -kInfinity);
      EXPECT_EQ(sent.lse_slots[peer].get(kRows.row(1, 1, 2, head)), -kInfinity);
    }
  }
  EXPECT_EQ(sent.num_written(), kHeads * kDim);
}

TEST(DirectDispatch, WidensA16BitLse) {
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    Dispatched sent(DType::kFp32, dtype);
    DirectDispatch::run(sent.params({}));
    EXPECT_EQ(sent.lse_slots[0].get(kRows.row(1, 1, 2, 1)), 21.0f);
    EXPECT_EQ(sent.lse_slots[1].get(kRows.row(1, 1, 2, 1)), 23.0f);
  }
}

TEST(DirectDispatch, StoresToPeersGoThroughTheirMemoryModelNeighbouringRowsAtOnce) {
  Dispatched sent(DType::kBf16);
  WrittenStores stores;
  DirectDispatch::run(sent.params({{0, 1, 2, 3}, {4, 0, 4}}, &stores));
  const std::size_t row_bytes = 2 * kDim * 2;
  ASSERT_EQ(stores.made.size(), 3u);  // lses, row 0, row 2
  for (const auto& made : stores.made) {
    EXPECT_EQ(made.to, 0);
    EXPECT_FALSE(made.is_release);
  }
  EXPECT_EQ(stores.made[0].size_bytes, 3 * 2 * sizeof(float));
  EXPECT_EQ(stores.made[1].size_bytes, row_bytes);
  EXPECT_EQ(stores.made[2].size_bytes, row_bytes);
  EXPECT_EQ(sent.num_written(), 2 * 2 * kDim);  // its own rows are there
  stores.made.clear();
  DirectDispatch::run(sent.params({}, &stores));
  ASSERT_EQ(stores.made.size(), 2u);
  EXPECT_EQ(stores.made[1].size_bytes, 3 * row_bytes);
}

TEST(DirectDispatch, WithoutAnyRowNothingIsStored) {
  Dispatched sent(DType::kBf16);
  WrittenStores stores;
  DirectDispatch::Params params = sent.params({}, &stores);
  params.num_tokens = 0;
  DirectDispatch::run(params);
  EXPECT_TRUE(stores.made.empty());
  EXPECT_EQ(sent.num_written(), 0);
}

struct Flags {
  std::vector<std::uint32_t> of_rank[kRanks] = {{90, 91, 92, 93}, {90, 91, 92, 93}};
  ExchangeState state{.epoch = 7, .published = 6, .consumed = 6, .num_done = 0};
  WrittenStores stores;

  DirectWait::Params wait() {
    return {.state = &state,
            .signals = of_rank[0].data(),
            .stores = &stores,
            .bound = {},
            .world_size = kRanks,
            .rank = 0,
            .ubatch = 3,
            .num_slots = kSlots};
  }
};

TEST(DirectPublish, RaisesItsFlagOfTheSlotOnEveryRankWithRelease) {
  Flags flags;
  DirectPublish::Params params{.state = &flags.state,
                               .signals = {},
                               .stores = &flags.stores,
                               .world_size = kRanks,
                               .rank = 1,
                               .num_slots = kSlots};
  for (int peer = 0; peer < kRanks; ++peer) params.signals.at[peer] = flags.of_rank[peer].data();
  DirectPublish::run(params);
  EXPECT_THAT(flags.of_rank[1], ElementsAre(90, 91, 92, 7));
  EXPECT_THAT(flags.of_rank[0], ElementsAre(90, 91, 92, 93));
  ASSERT_EQ(flags.stores.made.size(), 1u);
  EXPECT_TRUE(flags.stores.made[0].is_release);
  EXPECT_EQ(flags.stores.made[0].to, 0);
  EXPECT_EQ(flags.stores.made[0].at, flags.of_rank[0].data() + 3);
  EXPECT_THAT(flags.stores.released, ElementsAre(7));
  EXPECT_EQ(flags.state.published, 7u);
  params.stores = nullptr;
  DirectPublish::run(params);
  EXPECT_THAT(flags.of_rank[0], ElementsAre(90, 91, 92, 7));
}

TEST(DirectWait, IsOverWhenEveryFlagOfTheSlotIsTheEpochExactly) {
  Flags flags;
  const DirectWait::Params params = flags.wait();
  const auto is_ready = [&](std::uint32_t of_rank_0, std::uint32_t of_rank_1) {
    flags.of_rank[0] = {7, 7, of_rank_0, of_rank_1};  // the other slot's never count
    return DirectWait::ready(params);
  };
  EXPECT_TRUE(is_ready(7, 7));
  for (const std::uint32_t other : {0u, 5u, 6u, 8u, 9u, 0xFFFFFFFFu}) {
    EXPECT_FALSE(is_ready(7, other)) << other;
    EXPECT_FALSE(is_ready(other, 7)) << other;
  }
}

TEST(DirectWait, SaysWhatIsMissing) {
  Flags flags;
  flags.of_rank[0] = {7, 7, 7, 5};
  EXPECT_EQ(DirectWait::waits_for(flags.wait()),
            "ubatch 3, slot 1, wants epoch 7, sees 5 of rank 1");
}

TEST(DirectWait, AcquiresOnceItIsOver) {
  Flags flags;
  DirectWait::run(flags.wait());
  EXPECT_THAT(flags.stores.acquired, ElementsAre(0));
}

// What DirectRead takes out of slot 1, in the packed form of the combine.
struct Taken {
  Tensor payload;
  Tensor lse_slots;
  Tensor received;
  ExchangeState state{.epoch = 5, .published = 5, .consumed = 4, .num_done = 0};
  PackedRows packed;

  explicit Taken(DType dtype)
      : payload(dtype, kSlots * kRanks * kMaxTokens * 2 * kDim),
        lse_slots(DType::kFp32, kSlots * kRanks * kMaxTokens * 2),
        received(dtype, 1),
        packed{3, kRanks, 2, kDim, dtype, A2aLayout::kSplit} {
    received = Tensor(dtype, kRanks * packed.elements_per_peer());
    for (std::size_t i = 0; i < lse_slots.count(); ++i) {
      lse_slots.set(static_cast<std::int64_t>(i), static_cast<float>(i) - 9.5f);
    }
    for (std::size_t i = 0; i < payload.count(); ++i) {
      payload.set_bits(static_cast<std::int64_t>(i), static_cast<std::uint32_t>(i));
    }
  }

  void run() {
    DirectRead::run({.payload = payload.data(),
                     .lse_slots = static_cast<const float*>(lse_slots.data()),
                     .received = received.data(),
                     .state = &state,
                     .num_tokens = 3,
                     .max_num_tokens = kMaxTokens,
                     .heads_per_rank = 2,
                     .head_dim = kDim,
                     .world_size = kRanks,
                     .num_slots = kSlots,
                     .dtype = packed.dtype});
  }

  float lse(int sender, int token, int head) const {
    const std::int64_t at = packed.lse_offset(sender, token, head);
    std::uint32_t bits = received.bits(at);
    if (packed.dtype != DType::kFp32) bits |= received.bits(at + 1) << 16;
    return std::bit_cast<float>(bits);
  }
};

TEST(DirectRead, TakesTheRowsOfEverySenderOutOfTheSlotOfTheEpoch) {
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    Taken taken(dtype);
    taken.run();
    for (int sender = 0; sender < kRanks; ++sender) {
      for (int token = 0; token < 3; ++token) {
        for (int head = 0; head < 2; ++head) {
          const std::int64_t row = kRows.row(1, sender, token, head);
          EXPECT_EQ(taken.lse(sender, token, head), taken.lse_slots.get(row));
          const std::int64_t at = taken.packed.payload_offset(sender, token, head);
          for (int i = 0; i < kDim; ++i) {
            ASSERT_EQ(taken.received.bits(at + i), taken.payload.bits(row * kDim + i));
          }
        }
      }
    }
    EXPECT_EQ(taken.state.consumed, 5u);
    EXPECT_EQ(taken.state.epoch, 5u);
  }
}

// The payload of such a row was not sent: the slot holds what it held before.
TEST(DirectRead, DoesNotMoveThePayloadOfARowThatCountsNothing) {
  for (const float lse : {-kInfinity, kInfinity, kNan}) {
    Taken taken(DType::kBf16);
    const std::uint32_t before = taken.received.bits(0);
    taken.lse_slots.set(kRows.row(1, 0, 2, 1), lse);
    taken.run();
    const std::int64_t at = taken.packed.payload_offset(0, 2, 1);
    for (int i = 0; i < kDim; ++i) EXPECT_EQ(taken.received.bits(at + i), before);
    EXPECT_NE(taken.received.bits(at - 1), before);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(taken.lse(0, 2, 1)), std::bit_cast<std::uint32_t>(lse));
  }
}

}  // namespace
}  // namespace dcp::test
