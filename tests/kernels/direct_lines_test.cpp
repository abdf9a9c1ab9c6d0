// The direct exchange in lines leaves the bits that the exchange with flags leaves, in any layout,
// and no line of an earlier exchange passes for one of this.
#include "kernels/direct_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "kernels/direct_exchange.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint32_t kSlots = 2;
constexpr int kHeadsPerRank = 2;
constexpr int kDim = 24;

// The ranks of an exchange, and for the other form of it slots of its own.
class Ranks {
 public:
  Ranks(int world_size, std::int64_t num_tokens, DType dtype, DType lse_dtype, Layout layout,
        std::uint32_t epoch, LseBase base = LseBase::kE)
      : world_size_(world_size), num_tokens_(num_tokens), dtype_(dtype), base_(base) {
    const int heads = world_size * kHeadsPerRank;
    for (int rank = 0; rank < world_size; ++rank) {
      const Shape shape{static_cast<int>(num_tokens), heads, kDim};
      all_.push_back({.out = Rows(dtype, shape, layout),
                      .lse = Rows(lse_dtype, {shape.num_tokens, heads, 1}, Layout::kTokenMajor),
                      .payload = Tensor(dtype, kSlots * 2 * heads * kDim),
                      .lse_slots = Tensor(DType::kFp32, kSlots * 2 * heads),
                      .combined = Tensor(dtype, num_tokens * kHeadsPerRank * kDim),
                      .combined_lse = Tensor(DType::kFp32, num_tokens * kHeadsPerRank)});
      Rank& each = all_.back();
      each.state = {epoch, epoch, epoch, 0};
      each.lines.resize(static_cast<std::size_t>(kSlots) * kMaxLineTokens * heads * per_row());
      for (std::size_t i = 0; i < each.lines.size(); ++i) {
        const auto slot = static_cast<std::uint32_t>(i * kSlots / each.lines.size());
        each.lines[i].epoch = flag_at_rest(epoch, slot, kSlots);
        const std::size_t num_flags = static_cast<std::size_t>(world_size);
        if (i < kSlots * num_flags) {
          const auto of = static_cast<std::uint32_t>(i / num_flags);
          each.signals.push_back(flag_at_rest(epoch, of, kSlots));
        }
      }
    }
  }

  // Odd lses among them, and what must not be looked at in the rows of empty shards.
  void fill(std::mt19937& random) {
    std::normal_distribution<float> normal;
    constexpr float kOdd[] = {-kInfinity, kInfinity, 2.0f, kNan};
    for (int rank = 0; rank < world_size_; ++rank) {
      for (std::int64_t token = 0; token < num_tokens_; ++token) {
        for (int head = 0; head < world_size_ * kHeadsPerRank; ++head) {
          const auto draw = random() % 12;
          all_[rank].lse.set(token, head, 0, draw < 4 ? kOdd[draw] : normal(random));
          for (int i = 0; i < kDim; ++i) {
            const bool is_empty = is_empty_on(kEmptyRanks[token], rank);
            all_[rank].out.set(token, head, i, is_empty ? kNan : normal(random));
          }
        }
      }
    }
  }

  DirectLines::Params lines(int rank) {
    Rank& own = all_[rank];
    DirectLines::Params params{
        .out = own.out.view(),
        .lse = own.lse.view(),
        .lines = {},
        .state = &own.state,
        .empty = {kEmptyRanks, rank},
        .stores = nullptr,
        .bound = {},
        .combined = {own.combined.data(), token_major(kHeadsPerRank, kDim), dtype_},
        .combined_lse = static_cast<float*>(own.combined_lse.data()),
        .num_tokens = num_tokens_,
        .num_heads = world_size_ * kHeadsPerRank,
        .head_dim = kDim,
        .world_size = world_size_,
        .rank = rank,
        .ubatch = 3,
        .num_slots = kSlots,
        .base = base_};
    for (int peer = 0; peer < world_size_; ++peer) params.lines.at[peer] = all_[peer].lines.data();
    return params;
  }

  DirectExchange::Params flags(int rank) {
    Rank& own = all_[rank];
    DirectExchange::Params params{};
    params.send.out = own.out.view();
    params.send.lse = own.lse.view();
    for (int peer = 0; peer < world_size_; ++peer) {
      params.send.payload.at[peer] = all_[peer].payload.data();
      params.send.lse_slots.at[peer] = static_cast<float*>(all_[peer].lse_slots.data());
      params.publish.signals.at[peer] = all_[peer].signals.data();
    }
    params.send.state = &own.state;
    params.send.empty = {kEmptyRanks, rank};
    params.send.num_tokens = num_tokens_;
    params.send.max_num_tokens = 2;
    params.send.num_heads = world_size_ * kHeadsPerRank;
    params.send.head_dim = kDim;
    params.send.world_size = params.publish.world_size = params.wait.world_size = world_size_;
    params.send.rank = params.publish.rank = params.wait.rank = rank;
    params.send.num_slots = params.publish.num_slots = params.wait.num_slots = kSlots;
    params.send.keeps_own_rows = true;
    params.publish.state = &own.state;
    params.wait.state = &own.state;
    params.wait.signals = own.signals.data();
    params.out = lines(rank).combined;
    params.lse = lines(rank).combined_lse;
    params.base = base_;
    return params;
  }

  struct Results {
    std::vector<Tensor> out, lse;
    friend bool operator==(const Results&, const Results&) = default;
  };
  Results results() const {
    Results results;
    for (const Rank& rank : all_) {
      results.out.push_back(rank.combined);
      results.lse.push_back(rank.combined_lse);
    }
    return results;
  }

  ExchangeState& state(int rank) { return all_[rank].state; }
  std::vector<ExchangeLine>& slots(int rank) { return all_[rank].lines; }
  int per_row() const { return kDim * static_cast<int>(size_bytes(dtype_)) / 8; }

 private:
  struct Rank {
    Rows out, lse;
    Tensor payload, lse_slots;
    Tensor combined, combined_lse;
    std::vector<std::uint32_t> signals = {};
    ExchangeState state = {};
    std::vector<ExchangeLine> lines = {};
  };
  // Row 1 is empty on odd ranks.
  static constexpr std::uint64_t kEmptyRanks[] = {0, 0xAAAAAAAAAAAAAAAA};

  int world_size_;
  std::int64_t num_tokens_;
  DType dtype_;
  LseBase base_;
  std::vector<Rank> all_;
};

template <class Op, class ParamsOf>
void exchange(int world_size, const ParamsOf& params_of) {
  for (int rank = 0; rank < world_size; ++rank) {
    Op::arrive(params_of(rank));
    EXPECT_EQ(Op::ready(params_of(0)), rank == world_size - 1) << "rank " << rank;
  }
  for (int rank = 0; rank < world_size; ++rank) {
    ASSERT_TRUE(Op::ready(params_of(rank)));
    Op::run(params_of(rank));
  }
}

TEST(DirectLines, LeavesTheBitsThatTheExchangeWithFlagsLeaves) {
  int variant = 0;
  for (const DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
    for (const DType lse_dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
      for (const int world_size : {2, 3, 8}) {
        for (const Layout layout :
             {Layout::kTokenMajor, Layout::kHeadMajor, Layout::kElementStride}) {
          const LseBase base = ++variant % 2 == 0 ? LseBase::kE : LseBase::kTwo;
          const std::uint32_t epoch = variant % 3 == 0 ? 0xFFFFFFFEu : 6u + variant % 2;
          std::mt19937 random(static_cast<unsigned>(variant));
          Ranks ranks(world_size, 1 + variant % 2, dtype, lse_dtype, layout, epoch, base);
          std::uint32_t last = epoch;
          for (int times = 0; times < 3; ++times) {
            ranks.fill(random);
            exchange<DirectLines>(world_size, [&](int rank) { return ranks.lines(rank); });
            const auto got = ranks.results();
            last = next_epoch(last, kSlots);
            EXPECT_EQ(ranks.state(0).epoch, last);
            EXPECT_EQ(ranks.state(0).published, last);
            EXPECT_EQ(last_consumed(ranks.state(0), kSlots), last);
            // The same workspace, and the same rows again with flags.
            exchange<DirectExchange>(world_size, [&](int rank) { return ranks.flags(rank); });
            last = next_epoch(last, kSlots);
            EXPECT_EQ(got, ranks.results()) << "variant " << variant << ", time " << times;
          }
        }
      }
    }
  }
}

TEST(DirectLines, WaitsForEveryLineOfEveryRank) {
  std::mt19937 random(1);
  Ranks ranks(3, 2, DType::kBf16, DType::kFp32, Layout::kTokenMajor, 4);
  ranks.fill(random);
  for (int rank = 0; rank < 3; ++rank) DirectLines::arrive(ranks.lines(rank));
  ASSERT_TRUE(DirectLines::ready(ranks.lines(1)));
  const std::string all_there = DirectLines::waits_for(ranks.lines(1));
  EXPECT_THAT(all_there, HasSubstr("ubatch 3, slot 1, wants epoch 5"));
  EXPECT_THAT(all_there, Not(HasSubstr("sees")));
  const SlotLines slots{3, kHeadsPerRank, ranks.per_row()};
  for (int sender = 0; sender < 3; ++sender) {
    for (std::int64_t token = 0; token < 2; ++token) {
      for (int head = 0; head < kHeadsPerRank; ++head) {
        for (int i = 0; i < slots.per_row; ++i) {
          const std::int64_t at = slots.row(1, sender, token, head) + i;
          std::uint32_t& epoch = ranks.slots(1)[static_cast<std::size_t>(at)].epoch;
          epoch = 3;
          EXPECT_FALSE(DirectLines::ready(ranks.lines(1)));
          EXPECT_THAT(DirectLines::waits_for(ranks.lines(1)),
                      HasSubstr("sees 3 of rank " + std::to_string(sender)));
          epoch = 5;
        }
      }
    }
  }
  EXPECT_TRUE(DirectLines::ready(ranks.lines(1)));
}

TEST(DirectLines, RowsOfAnEmptyShardAreZerosWithTheirLse) {
  std::mt19937 random(1);
  Ranks ranks(2, 2, DType::kBf16, DType::kFp32, Layout::kTokenMajor, 4);
  ranks.fill(random);  // NaN in the rows that are empty
  DirectLines::arrive(ranks.lines(1));
  const SlotLines slots{2, kHeadsPerRank, ranks.per_row()};
  for (int head = 0; head < kHeadsPerRank; ++head) {
    for (int i = 0; i < slots.per_row; ++i) {
      const auto at = static_cast<std::size_t>(slots.row(1, 1, 1, head) + i);
      EXPECT_EQ(ranks.slots(0)[at].bits, 0u);
      EXPECT_EQ(std::bit_cast<float>(ranks.slots(0)[at].lse), -kInfinity);
      EXPECT_EQ(ranks.slots(0)[at].epoch, 5u);
    }
  }
}

TEST(DirectLines, DeclaresItsLinesInTheSlotsOfAllRanksAndEveryLineOfItsOwn) {
  Ranks ranks(3, 1, DType::kBf16, DType::kFp32, Layout::kTokenMajor, 4);
  std::vector<Access> accesses;
  DirectLines::accesses(ranks.lines(1), accesses);
  const std::size_t part = static_cast<std::size_t>(kHeadsPerRank * ranks.per_row()) * 16;
  std::size_t written = 0;
  std::size_t read = 0;
  for (const Access& access : accesses) {
    if (access.argument != "lines") continue;
    EXPECT_EQ(access.size_bytes, part);
    (access.mode == Mode::kWrite ? written : read) += access.size_bytes;
    if (access.mode == Mode::kWrite) continue;
    const auto* const begin = reinterpret_cast<const std::byte*>(ranks.slots(1).data());
    const auto* const at = static_cast<const std::byte*>(access.data);
    EXPECT_GE(at, begin);
    EXPECT_LE(at + part, begin + ranks.slots(1).size() * 16);
  }
  EXPECT_EQ(written, 3 * kSlots * part);
  EXPECT_EQ(read, 3 * kSlots * part);
}

}  // namespace
}  // namespace dcp::test
