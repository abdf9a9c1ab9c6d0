// The merge of two states and the combine of splits, against the formula in float64.
#include "kernels/merge_states.hpp"

#include <gtest/gtest.h>

#include <random>

#include "kernels/split_combine.hpp"
#include "tests/kernels/plain_attention.hpp"

namespace dcp::test {
namespace {

// States of one row and head: lse, and out of 8 equal elements.
struct State {
  float lse;
  float out;
};

// out and lse of the combine; `magnitude` is S.
PlainState combine(const std::vector<State>& states, LseBase base) {
  double max = -kInfinity;
  for (const State& state : states) max = std::max(max, double{state.lse});
  if (max == -kInfinity) return {{0.0}, {0.0}, -kInfinity};
  double sum = 0.0;
  for (const State& state : states) sum += std::exp((state.lse - max) * log_of_base(base));
  PlainState result{{0.0}, {0.0}, max + std::log(sum) / log_of_base(base)};
  for (const State& state : states) {
    const double weight = std::exp((state.lse - max) * log_of_base(base)) / sum;
    if (weight < 0x1p-126) continue;
    result.out[0] += weight * state.out;
    result.magnitude[0] += weight * std::abs(state.out);
  }
  return result;
}

void expect_near(double got, double want, double tolerance) {
  if (got == want) return;  // equal infinities
  EXPECT_NEAR(got, want, tolerance);
}

struct Merged {
  float out;
  float lse;
};

// One row, two heads, the second with the states swapped; returns the first, and checks that they
// are equal.
Merged merge(const State& context, const State& fresh, DType dtype, LseBase base,
             const Batch& batch) {
  Tensor outs[] = {Tensor(dtype, 16), Tensor(dtype, 16)};
  for (int i = 0; i < 8; ++i) {
    outs[0].set(i, context.out), outs[0].set(8 + i, fresh.out);
    outs[1].set(i, fresh.out), outs[1].set(8 + i, context.out);
  }
  const float lses[2][2] = {{context.lse, fresh.lse}, {fresh.lse, context.lse}};
  Rows out(dtype, {1, 2, 8}, Layout::kHeadPadded);
  float lse[2] = {kNan, kNan};
  MergeStates::run({.context_out = outs[0].data(),
                    .context_lse = lses[0],
                    .new_out = outs[1].data(),
                    .new_lse = lses[1],
                    .out = out.view(),
                    .lse = lse,
                    .batch = batch.metadata(),
                    .num_tokens = 1,
                    .num_heads = 2,
                    .head_dim = 8,
                    .base = base});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out.bits(0, 0, i), out.bits(0, 0, 0));
  if (batch.causal_bounds[0] > 0) {
    EXPECT_EQ(out.bits(0, 1, 5), out.bits(0, 0, 5));
    EXPECT_EQ(lse[0], lse[1]);
  }
  return {out.get(0, 0, 0), lse[0]};
}

const Batch kOneToken{{0, 1}, {1}, {1}};
const Batch kPadding{{0, 0}, {0}, {0}};

TEST(MergeStates, MatchesTheCombineOfTwo) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    for (const LseBase base : {LseBase::kE, LseBase::kTwo}) {
      for (const float context_lse : {-kInfinity, -30.0f, 0.0f, 2.5f, 700.0f}) {
        for (const float new_lse : {-20.0f, 0.0f, 3.25f, 701.0f}) {
          const State context{context_lse, 1.5f};
          const State fresh{new_lse, -0.375f};
          const PlainState want = combine({context, fresh}, base);
          const Merged got = merge(context, fresh, dtype, base, kOneToken);
          expect_near(got.out, want.out[0],
                      ulp(dtype, want.out[0]) + 16 * 0x1p-24 * want.magnitude[0]);
          expect_near(got.lse, want.lse, 0x1p-20 * std::max(1.0, std::abs(want.lse)));
        }
      }
    }
  }
}

TEST(MergeStates, AFirstTokenIsItsOwnStateWhateverTheContextHolds) {
  for (const float stale : {kNan, kInfinity, 7.0f}) {
    const Merged got =
        merge({-kInfinity, stale}, {0.25f, -0.7f}, DType::kFp32, LseBase::kE, kOneToken);
    EXPECT_EQ(got.out, -0.7f);
    EXPECT_EQ(got.lse, 0.25f);
  }
}

TEST(MergeStates, ARowWithoutNewTokensIsEmptyWhateverTheNewStateHolds) {
  for (const float stale : {kNan, kInfinity, 7.0f}) {
    const Merged got =
        merge({-kInfinity, 0.0f}, {stale, stale}, DType::kBf16, LseBase::kTwo, kPadding);
    EXPECT_EQ(got.out, 0.0f);
    EXPECT_EQ(got.lse, -kInfinity);
  }
}

TEST(MergeStates, WithoutAnLseWritesTheOutputAlone) {
  const float outs[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float lse = 1.0f;
  Rows out(DType::kFp32, {1, 1, 8});
  MergeStates::run({.context_out = outs,
                    .context_lse = &lse,
                    .new_out = outs,
                    .new_lse = &lse,
                    .out = out.view(),
                    .lse = nullptr,
                    .batch = kOneToken.metadata(),
                    .num_tokens = 1,
                    .num_heads = 1,
                    .head_dim = 8,
                    .base = LseBase::kE});
  EXPECT_EQ(out.get(0, 0, 7), 8.0f);
}

// One row and one head of 8 elements; the states' outs may hold anything where they have no weight.
Merged combine_splits(const std::vector<State>& states, DType dtype, LseBase base) {
  std::vector<float> outs;
  std::vector<float> lses;
  for (const State& state : states) {
    outs.insert(outs.end(), 8, state.out);
    lses.push_back(state.lse);
  }
  Rows out(dtype, {1, 1, 8});
  Rows lse(DType::kFp32, {1, 1, 1});
  const std::int32_t mode = static_cast<std::int32_t>(EmptyRowMode::kExact);
  SplitCombine::run({.split_out = outs.data(),
                     .split_lse = lses.data(),
                     .out = out.view(),
                     .lse = lse.view(),
                     .batch = kOneToken.metadata(),
                     .empty_row_mode = &mode,
                     .num_tokens = 1,
                     .num_heads = 1,
                     .head_dim = 8,
                     .num_splits = static_cast<std::int32_t>(states.size()),
                     .base = base});
  return {out.get(0, 0, 3), lse.get(0, 0)};
}

TEST(SplitCombine, MatchesTheCombineOfItsSplits) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    for (const LseBase base : {LseBase::kE, LseBase::kTwo}) {
      for (const int num_splits : {1, 2, 3, 9, 100, 1024}) {
        std::vector<State> states;
        for (int s = 0; s < num_splits; ++s) states.push_back({3 * normal(random), normal(random)});
        const PlainState want = combine(states, base);
        const Merged got = combine_splits(states, dtype, base);
        expect_near(got.out, want.out[0], ulp(dtype, want.out[0]) + 0x1p-18 * want.magnitude[0]);
        expect_near(got.lse, want.lse, 0x1p-20 * std::max(1.0, std::abs(want.lse)));
      }
    }
  }
}

TEST(SplitCombine, ASplitWithoutKeysIsNotRead) {
  for (const float stale : {kNan, kInfinity, 7.0f}) {
    const Merged got = combine_splits({{-kInfinity, stale}, {1.0f, 2.0f}, {-kInfinity, stale}},
                                      DType::kFp32, LseBase::kE);
    EXPECT_EQ(got.out, 2.0f);
    EXPECT_EQ(got.lse, 1.0f);
  }
}

TEST(SplitCombine, ANanInOneSplitIsANanInThePartial) {
  const Merged got = combine_splits({{1.0f, 2.0f}, {kNan, kNan}}, DType::kBf16, LseBase::kE);
  EXPECT_TRUE(std::isnan(got.out));
  EXPECT_TRUE(std::isnan(got.lse));
}

}  // namespace
}  // namespace dcp::test
