// The check of GQA steps, and of steps that attend to new tokens apart: each fault of the naive
// engine must fail the level of the stage that has it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "naive_engine.hpp"
#include "reference/layer_check.hpp"

namespace dcp {
namespace {

Batch mixed_batch() {
  Batch batch;
  batch.seq_lens = {37, 0, 3, 100, 1};
  batch.query_start_loc = {0, 1, 2, 5, 7, 8};
  return batch;
}

Scenario split_scenario(int world_size, DataKind kind = DataKind::kRandom) {
  Scenario scenario = small_gqa_scenario(world_size, kind);
  scenario.attention_split = AttentionSplit::kContextThenNew;
  return scenario;
}

struct Case {
  Scenario scenario;
  Batch batch = mixed_batch();
  NaiveRun run = {.num_rows = 10};
  std::string_view strategy = "a2a";
};

// "partial combine new merge step", each as + or -.
std::string verdict(const Case& test, const NaiveStep& step, const CheckOptions& options = {}) {
  const LayerCheck check =
      StepReference(test.scenario, test.batch, test.run.num_rows, test.strategy)
          .check_layer(step.observation(), options);
  std::string text;
  for (const Comparison* level :
       {&check.partial, &check.combine, &check.new_tokens, &check.merge, &check.step}) {
    text += level->passed() ? '+' : '-';
  }
  EXPECT_EQ(check.passed(), text == "+++++");
  return text;
}

std::string verdict(const Case& test) {
  return verdict(test, run_naive(test.scenario, test.batch, test.run));
}

TEST(GqaCheck, PassesWhatIsRight) {
  for (const bool splits : {false, true}) {
    for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
      for (const LseTag lse : {LseTag{LseBase::kE, DType::kFp32}, LseTag{LseBase::kTwo, dtype}}) {
        for (const int world_size : {1, 2, 4}) {
          for (const bool summed : {false, true}) {
            Case test{small_gqa_scenario(world_size)};
            test.run.all_heads = test.run.rounded_terms = summed;
            test.run.layer = 2;
            test.strategy = summed ? "ag_ar" : "a2a";
            test.scenario.dtype = dtype;
            test.scenario.lse = lse;
            test.scenario.interleave = world_size;
            if (splits) test.scenario.attention_split = AttentionSplit::kContextThenNew;
            for (test.scenario.data.seed = 1; test.scenario.data.seed < 5;
                 ++test.scenario.data.seed) {
              ASSERT_EQ(verdict(test), "+++++")
                  << splits << name(dtype) << " N " << world_size << " summed " << summed
                  << " seed " << test.scenario.data.seed;
            }
          }
        }
      }
    }
  }
}

TEST(GqaCheck, ASubGroupOfATensorParallelGroupHasItsShareOfTheHeads) {
  for (const int tensor_parallel_size : {4, 8, 16}) {
    Case test{small_gqa_scenario(2)};
    test.scenario.model.num_heads = 32;
    test.scenario.tensor_parallel_size = tensor_parallel_size;
    EXPECT_EQ(verdict(test), "+++++") << tensor_parallel_size;
  }
}

TEST(GqaCheck, FindsQueryHeadsThatReadAnotherKvHead) {
  Case test{small_gqa_scenario(2)};
  test.run.swapped_kv_heads = true;
  EXPECT_EQ(verdict(test), "-+++-");
}

TEST(GqaCheck, MeanDataHasItsClosedForm) {
  for (Scenario scenario :
       {small_gqa_scenario(2, DataKind::kMean), split_scenario(2, DataKind::kMean)}) {
    Case test{scenario};
    const LayerCheck check =
        StepReference(test.scenario, test.batch, 10, "a2a")
            .check_layer(run_naive(test.scenario, test.batch, test.run).observation());
    EXPECT_TRUE(check.passed());
    const double out[] = {55.0 / 37, 0, 1, 1.5, 4.0 / 3, 148.0 / 99, 1.5, 1, 0, 0};
    for (std::size_t row = 0; row < 10; ++row) {
      EXPECT_NEAR(check.expected.out[row * 8 * 16 + 77], out[row], 1e-14) << row;
    }
    EXPECT_NEAR(check.expected.lse[5 * 8], std::log(99), 1e-14);
    EXPECT_EQ(check.expected.lse[1 * 8], -std::numeric_limits<double>::infinity());
  }
}

// The step's result does not depend on how its attention is split.
TEST(SplitCheck, ExpectsTheSameResultAsOneAttention) {
  const Case split{split_scenario(4)};
  const Case whole{small_gqa_scenario(4)};
  const auto expected = [](const Case& test) {
    return StepReference(test.scenario, test.batch, 10, "a2a")
        .check_layer(run_naive(test.scenario, test.batch, test.run).observation())
        .expected;
  };
  EXPECT_EQ(expected(split).out, expected(whole).out);
  EXPECT_EQ(expected(split).lse, expected(whole).lse);
}

TEST(SplitCheck, AContextKeyIsThePartialsAndANewOneTheNewTokens) {
  Case test{split_scenario(2)};
  test.run.lost_token = 20;
  EXPECT_EQ(verdict(test), "-+++-");
  test.run.lost_token = 36;
  EXPECT_EQ(verdict(test), "++-+-");
}

TEST(SplitCheck, FindsANewTokenThatSeesItsFuture) {
  Case test{split_scenario(2)};
  test.run.non_causal_new_tokens = true;
  EXPECT_EQ(verdict(test), "++-+-");
}

TEST(SplitCheck, FindsContextRowsThatSeeANewToken) {
  const Case split{split_scenario(2)};
  const Case whole{small_gqa_scenario(2)};
  NaiveStep step = run_naive(split.scenario, split.batch, split.run);
  const NaiveStep other = run_naive(whole.scenario, whole.batch, whole.run);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    step.ranks[rank].partial_out = other.ranks[rank].partial_out;
    step.ranks[rank].partial_lse = other.ranks[rank].partial_lse;
  }
  const std::string text = verdict(split, step);
  EXPECT_EQ(text[0], '-');
  EXPECT_EQ(text.substr(2), "+++");
}

TEST(SplitCheck, FindsTheContextOfSwappedRanksInTheCombine) {
  const Case test{split_scenario(2)};
  NaiveStep step = run_naive(test.scenario, test.batch, test.run);
  std::swap(step.ranks[0].context_out, step.ranks[1].context_out);
  EXPECT_EQ(verdict(test, step), "+-+-+");
}

TEST(SplitCheck, FindsAWrongMerge) {
  const Case test{split_scenario(2)};
  const NaiveStep right = run_naive(test.scenario, test.batch, test.run);
  NaiveStep step = right;
  for (NaiveStep::Rank& rank : step.ranks) rank.out = rank.context_out;
  EXPECT_EQ(verdict(test, step), "+++--") << "the new tokens were forgotten";
  step = right;
  for (NaiveStep::Rank& rank : step.ranks) rank.lse = rank.context_lse;
  EXPECT_EQ(verdict(test, step), "+++--");
}

TEST(SplitCheck, APaddedRowsNewStateIsTheMergesToMask) {
  const Case test{split_scenario(2)};
  NaiveStep step = run_naive(test.scenario, test.batch, test.run);
  for (NaiveStep::Rank& rank : step.ranks) {
    for (std::size_t head = 0; head < 4; ++head) {
      rank.new_lse[9 * 4 + head] = std::numeric_limits<float>::infinity();
    }
  }
  EXPECT_EQ(verdict(test, step), "++-++");
  EXPECT_EQ(verdict(test, step, {.partial_empty_rows = false}), "+++++");
  step.ranks[0].out[9 * 4 * 16] = 1e-30f;
  EXPECT_EQ(verdict(test, step, {.partial_empty_rows = false}), "+++--");
}

TEST(SplitCheck, RefusesAnObservationWithoutTheStates) {
  const Case test{split_scenario(2)};
  for (auto tensor : {&NaiveStep::Rank::context_out, &NaiveStep::Rank::context_lse,
                      &NaiveStep::Rank::new_out, &NaiveStep::Rank::new_lse}) {
    NaiveStep step = run_naive(test.scenario, test.batch, test.run);
    (step.ranks[1].*tensor).clear();
    EXPECT_THROW(verdict(test, step), std::invalid_argument);
  }
}

}  // namespace
}  // namespace dcp
