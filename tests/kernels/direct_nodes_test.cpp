// A direct exchange in one node leaves what the six operations leave: the bytes in every rank's
// slots, flags and state, and the bits of the result.
#include <gtest/gtest.h>

#include <random>

#include "kernels/a2a_combine.hpp"
#include "kernels/direct_exchange.hpp"
#include "kernels/direct_read.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

constexpr std::uint32_t kSlots = 2;
constexpr int kBlocks = 3;  // with flags of their own, of which the host has one
constexpr std::int64_t kTokens = 4;
constexpr std::int64_t kMaxTokens = 5;

struct RankMemory {
  Tensor payload, lse_slots;
  std::vector<std::uint32_t> signals;
  ExchangeState state;
  Tensor out, lse;  // of the combine
};

class DirectNodes : public testing::TestWithParam<std::tuple<DType, int, LseBase>> {
 protected:
  static constexpr int kHeadsPerRank = 2;
  static constexpr int kDim = 16;

  DType dtype() const { return std::get<0>(GetParam()); }
  int world_size() const { return std::get<1>(GetParam()); }
  int num_heads() const { return kHeadsPerRank * world_size(); }

  std::vector<RankMemory> memory(std::uint32_t epoch) const {
    const std::int64_t rows = kSlots * world_size() * kMaxTokens * kHeadsPerRank;
    std::vector<RankMemory> ranks;
    for (int rank = 0; rank < world_size(); ++rank) {
      RankMemory& each =
          ranks.emplace_back(RankMemory{Tensor(dtype(), rows * kDim),
                                        Tensor(DType::kFp32, rows),
                                        {},
                                        {epoch, epoch, epoch, 0},
                                        Tensor(dtype(), kTokens * kHeadsPerRank * kDim),
                                        Tensor(DType::kFp32, kTokens * kHeadsPerRank)});
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
        each.signals.insert(each.signals.end(), static_cast<std::size_t>(kBlocks * world_size()),
                            flag_at_rest(epoch, slot, kSlots));
      }
    }
    return ranks;
  }

  DirectExchange::Params exchange(std::vector<RankMemory>& ranks, int rank, const Tensor& out,
                                  const Tensor& lse) const {
    DirectExchange::Params params{};
    DirectDispatch::Params& send = params.send;
    send.out = {out.data(), token_major(num_heads(), kDim), dtype()};
    send.lse = {lse.data(), token_major(num_heads(), 1), DType::kFp32};
    for (int peer = 0; peer < world_size(); ++peer) {
      send.payload.at[peer] = ranks[peer].payload.data();
      send.lse_slots.at[peer] = static_cast<float*>(ranks[peer].lse_slots.data());
      params.publish.signals.at[peer] = ranks[peer].signals.data();
    }
    RankMemory& own = ranks[rank];
    send.state = &own.state;
    send.empty = {kEmptyRanks, rank};
    send.num_tokens = kTokens;
    send.max_num_tokens = kMaxTokens;
    send.num_heads = num_heads();
    send.head_dim = kDim;
    send.world_size = world_size();
    send.rank = rank;
    send.num_slots = kSlots;
    params.publish.state = &own.state;
    params.publish.world_size = world_size();
    params.publish.rank = rank;
    params.publish.num_slots = kSlots;
    params.publish.num_blocks = kBlocks;
    params.wait = {.state = &own.state,
                   .signals = own.signals.data(),
                   .stores = nullptr,
                   .bound = {},
                   .world_size = world_size(),
                   .rank = rank,
                   .ubatch = 0,
                   .num_slots = kSlots,
                   .num_blocks = kBlocks};
    params.out = {own.out.data(), token_major(kHeadsPerRank, kDim), dtype()};
    params.lse = static_cast<float*>(own.lse.data());
    params.base = std::get<2>(GetParam());
    return params;
  }

  void read_and_combine(RankMemory& memory) const {
    Tensor received(dtype(), kTokens * num_heads() * (kDim + lse_lanes(dtype())));
    DirectRead::run({.payload = memory.payload.data(),
                     .lse_slots = static_cast<const float*>(memory.lse_slots.data()),
                     .received = received.data(),
                     .state = &memory.state,
                     .num_tokens = kTokens,
                     .max_num_tokens = kMaxTokens,
                     .heads_per_rank = kHeadsPerRank,
                     .head_dim = kDim,
                     .world_size = world_size(),
                     .num_slots = kSlots,
                     .dtype = dtype()});
    A2aCombine::run({.recv = received.data(),
                     .out = {memory.out.data(), token_major(kHeadsPerRank, kDim), dtype()},
                     .lse = static_cast<float*>(memory.lse.data()),
                     .num_tokens = kTokens,
                     .heads_per_rank = kHeadsPerRank,
                     .head_dim = kDim,
                     .world_size = world_size(),
                     .base = std::get<2>(GetParam()),
                     .layout = A2aLayout::kSplit});
  }

 private:
  // Row 1 is empty on odd ranks, row 3 is padding.
  static constexpr std::uint64_t kEmptyRanks[] = {0, 0xAAAAAAAAAAAAAAAA, 0, kEveryRank};
};

Tensor random_rows(DType dtype, std::int64_t count, std::mt19937& random) {
  Tensor rows(dtype, count);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < count; ++i) rows.set(i, normal(random));
  return rows;
}

TEST_P(DirectNodes, OneLeavesWhatTheOperationsLeave) {
  for (const std::uint32_t epoch : {6u, 7u, 0xFFFFFFFEu, 0xFFFFFFFFu}) {
    std::mt19937 random(epoch);
    auto in_steps = memory(epoch);
    auto in_a_node = memory(epoch);
    std::vector<DirectExchange::Params> nodes;
    std::vector<Tensor> outs, lses;
    for (int rank = 0; rank < world_size(); ++rank) {
      outs.push_back(random_rows(dtype(), kTokens * num_heads() * kDim, random));
      lses.push_back(random_rows(DType::kFp32, kTokens * num_heads(), random));
    }
    for (int rank = 0; rank < world_size(); ++rank) {
      const auto steps = exchange(in_steps, rank, outs[rank], lses[rank]);
      DirectAdvance::run({.state = steps.publish.state, .num_slots = kSlots});
      DirectDispatch::run(steps.send);
      DirectPublish::run(steps.publish);
      nodes.push_back(exchange(in_a_node, rank, outs[rank], lses[rank]));
      DirectExchange::arrive(nodes.back());
      EXPECT_EQ(DirectExchange::ready(nodes[0]), rank == world_size() - 1);
    }
    for (int rank = 0; rank < world_size(); ++rank) {
      read_and_combine(in_steps[rank]);
      ASSERT_TRUE(DirectExchange::ready(nodes[rank]));
      DirectExchange::run(nodes[rank]);
      const RankMemory& want = in_steps[rank];
      const RankMemory& got = in_a_node[rank];
      EXPECT_EQ(got.payload, want.payload) << "rank " << rank;
      EXPECT_EQ(got.lse_slots, want.lse_slots) << "rank " << rank;
      EXPECT_EQ(got.signals, want.signals) << "rank " << rank;
      EXPECT_EQ(std::memcmp(&got.state, &want.state, sizeof(got.state)), 0) << "rank " << rank;
      EXPECT_EQ(got.out, want.out) << "rank " << rank;
      EXPECT_EQ(got.lse, want.lse) << "rank " << rank;
      EXPECT_EQ(got.state.consumed, next_epoch(epoch, kSlots));
      EXPECT_EQ(got.lse.get(3 * kHeadsPerRank), -kInfinity);  // padding
      EXPECT_FALSE(std::isnan(got.out.get(0)));
    }
  }
}

TEST_P(DirectNodes, DeclaresWhatTheOperationsDeclare) {
  auto ranks = memory(0);
  const Tensor rows = Tensor(dtype(), kTokens * num_heads() * kDim);
  const Tensor lse = Tensor(DType::kFp32, kTokens * num_heads());
  const DirectExchange::Params params = exchange(ranks, 0, rows, lse);
  std::vector<Access> all, parts;
  DirectExchange::accesses(params, all);
  DirectDispatch::accesses(params.send, parts);
  DirectPublish::accesses(params.publish, parts);
  DirectWait::accesses(params.wait, parts);
  const auto of = [](const std::vector<Access>& accesses, std::string_view argument, Mode mode) {
    std::size_t bytes = 0;
    for (const Access& access : accesses) {
      const bool is_meant = access.argument == argument && access.mode == mode;
      bytes += is_meant ? access.size_bytes : 0;
    }
    return bytes;
  };
  for (const std::string_view argument : {"payload", "lse_slots", "signals"}) {
    EXPECT_EQ(of(all, argument, Mode::kWrite), of(parts, argument, Mode::kWrite)) << argument;
    EXPECT_GT(of(all, argument, Mode::kWrite), 0u) << argument;
  }
  for (const std::string_view argument : {"out", "lse", "signals"}) {
    EXPECT_EQ(of(all, argument, Mode::kRead), of(parts, argument, Mode::kRead)) << argument;
    EXPECT_GT(of(all, argument, Mode::kRead), 0u) << argument;
  }
  const std::size_t row = kDim * size_bytes(dtype());
  const std::size_t num_combined = kTokens * kHeadsPerRank;
  EXPECT_EQ(of(all, "payload", Mode::kRead), kSlots * world_size() * num_combined * row);
  EXPECT_EQ(of(all, "combined", Mode::kWrite), num_combined * row);
  EXPECT_EQ(of(all, "combined_lse", Mode::kWrite), num_combined * sizeof(float));
  EXPECT_EQ(of(all, "state", Mode::kReadWrite), sizeof(ExchangeState));
}

INSTANTIATE_TEST_SUITE_P(Kernels, DirectNodes,
                         testing::Combine(testing::Values(DType::kFp16, DType::kBf16, DType::kFp32),
                                          testing::Values(2, 3, 8),
                                          testing::Values(LseBase::kE, LseBase::kTwo)));

}  // namespace
}  // namespace dcp::test
