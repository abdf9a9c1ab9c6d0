#include "reference/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "reference/combine.hpp"

namespace dcp {
namespace {

using Tokens = std::vector<Eigen::Index>;

Tokens first_tokens(Eigen::Index count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), Eigen::Index{0});
  return tokens;
}

TEST(Attention, TwoKeysByHand) {
  Eigen::MatrixXf query(2, 1);
  query << 1, 2;
  Eigen::MatrixXf keys(2, 2);
  keys << 3, -1,  //
      0, 1;
  const Eigen::MatrixXd scores = attention_scores(query, keys, 0.5);
  EXPECT_EQ(scores(0, 0), 1.5);
  EXPECT_EQ(scores(1, 0), 0.5);
  const AttentionState state = attend(scores, keys, 1, first_tokens(2), LseBase::kE);
  const double p = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(state.out(0, 0), 3 * p - (1 - p), 1e-15);
  EXPECT_NEAR(state.magnitude(0, 0), 3 * p + (1 - p), 1e-15);
  EXPECT_NEAR(state.lse[0], std::log(std::exp(1.5) + std::exp(0.5)), 1e-15);
  EXPECT_NEAR(attend(scores, keys, 1, first_tokens(2), LseBase::kTwo).lse[0],
              state.lse[0] / std::log(2.0), 1e-15);
}

TEST(Attention, WithoutKeysIsZeroAndMinusInfinity) {
  const Eigen::MatrixXf keys(2, 0);
  const AttentionState state =
      attend(attention_scores(Eigen::MatrixXf::Ones(2, 3), keys, 1), keys, 2, {}, LseBase::kE);
  EXPECT_EQ(state.out, Eigen::MatrixXd::Zero(2, 3));
  EXPECT_EQ(state.lse, Eigen::VectorXd::Constant(3, -INFINITY));
}

TEST(Attention, ScoresFarBelowTheLargestDoNotBecomeNan) {
  Eigen::MatrixXf keys(1, 2);
  keys << 1000, -1000;
  const Eigen::MatrixXd scores = attention_scores(Eigen::MatrixXf::Ones(1, 1), keys, 1);
  const AttentionState state = attend(scores, keys, 1, first_tokens(2), LseBase::kE);
  EXPECT_EQ(state.out(0, 0), 1000);
  EXPECT_EQ(state.lse[0], 1000);
}

// 2500 keys: more than two chunks. Shards of every kind must add up to the whole.
TEST(Attention, CombinedShardsAreTheUnshardedResult) {
  const Eigen::Index num_keys = 2500;
  const Eigen::MatrixXf query = Eigen::MatrixXf::Random(24, 3) * 4;
  const Eigen::MatrixXf keys = Eigen::MatrixXf::Random(24, num_keys);
  const Eigen::MatrixXd scores = attention_scores(query, keys, 1.0);
  for (const LseBase base : {LseBase::kE, LseBase::kTwo}) {
    const AttentionState whole = attend(scores, keys, 16, first_tokens(num_keys), base);
    for (const Eigen::Index num_ranks : {1, 3, 8}) {
      std::vector<AttentionState> states;
      for (Eigen::Index rank = 0; rank < num_ranks; ++rank) {
        Tokens tokens;
        for (Eigen::Index t = 0; t < num_keys; ++t) {
          if (t / 16 % num_ranks == rank) tokens.push_back(t);
        }
        states.push_back(attend(scores, keys, 16, tokens, base));
      }
      for (Eigen::Index head = 0; head < 3; ++head) {
        Eigen::ArrayXd lse(num_ranks);
        Eigen::ArrayXXd outs(16, num_ranks);
        for (Eigen::Index rank = 0; rank < num_ranks; ++rank) {
          lse[rank] = states[static_cast<std::size_t>(rank)].lse[head];
          outs.col(rank) = states[static_cast<std::size_t>(rank)].out.col(head);
        }
        const CombinedRow row = combine(lse, outs, base);
        EXPECT_NEAR(row.lse, whole.lse[head], 1e-12);
        EXPECT_LT((row.out.matrix() - whole.out.col(head)).cwiseAbs().maxCoeff(), 1e-12);
      }
    }
  }
}

TEST(Attention, OrderOfTokensDoesNotMatter) {
  const Eigen::MatrixXf keys = Eigen::MatrixXf::Random(8, 40);
  const Eigen::MatrixXd scores = attention_scores(Eigen::MatrixXf::Random(8, 2), keys, 1.0);
  const Tokens tokens = first_tokens(40);
  const Tokens reversed(tokens.rbegin(), tokens.rend());
  const AttentionState a = attend(scores, keys, 8, tokens, LseBase::kE);
  const AttentionState b = attend(scores, keys, 8, reversed, LseBase::kE);
  EXPECT_LT((a.out - b.out).cwiseAbs().maxCoeff(), 1e-14);
}

}  // namespace
}  // namespace dcp
