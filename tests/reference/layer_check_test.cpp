#include "reference/layer_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "naive_engine.hpp"
#include "reference/wanted_row.hpp"

namespace dcp {
namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

Batch batch_of(std::vector<std::int64_t> seq_lens) {
  Batch batch;
  batch.seq_lens = std::move(seq_lens);
  return batch;
}

Batch batch_of(std::vector<std::int64_t> seq_lens, std::vector<std::int64_t> query_start_loc) {
  Batch batch = batch_of(std::move(seq_lens));
  batch.query_start_loc = std::move(query_start_loc);
  return batch;
}

struct Case {
  Scenario scenario;
  Batch batch;
  NaiveRun run;
  std::string_view strategy = "a2a";
};

std::int64_t num_rows(const Case& test) {
  if (test.run.num_rows) return test.run.num_rows;
  return row_boundaries(test.batch).back();
}

LayerCheck check(const Case& test, const NaiveStep& step, const CheckOptions& options = {}) {
  return StepReference(test.scenario, test.batch, num_rows(test), test.strategy)
      .check_layer(step.observation(), options);
}

LayerCheck check(const Case& test, const CheckOptions& options = {}) {
  return check(test, run_naive(test.scenario, test.batch, test.run), options);
}

// "partial combine step", each as + or -.
std::string verdict(const LayerCheck& check) {
  std::string text;
  for (const Comparison* level : {&check.partial, &check.combine, &check.step}) {
    text += level->passed() ? '+' : '-';
  }
  return text;
}

// All heads and elements of each row.
void expect_rows(const LayerCheck& check, const std::vector<double>& out,
                 const std::vector<double>& lse) {
  const std::size_t heads = check.expected.lse.size() / lse.size();
  const std::size_t elements = check.expected.out.size() / out.size();
  for (std::size_t i = 0; i < check.expected.lse.size(); ++i) {
    if (lse[i / heads] == kEmpty) {
      EXPECT_EQ(check.expected.lse[i], kEmpty) << "row " << i / heads;
    } else {
      EXPECT_NEAR(check.expected.lse[i], lse[i / heads], 1e-14) << "row " << i / heads;
    }
  }
  for (std::size_t i = 0; i < check.expected.out.size(); ++i) {
    EXPECT_NEAR(check.expected.out[i], out[i / elements], out[i / elements] == 0 ? 0 : 1e-14)
        << "row " << i / elements;
  }
}

TEST(StepReference, MeanDataHasItsClosedForm) {
  const Case test{small_scenario(2, DataKind::kMean), batch_of({5, 1, 3, 7, 0}), {.num_rows = 6}};
  const LayerCheck result = check(test);
  EXPECT_EQ(verdict(result), "+++");
  expect_rows(result, {1.4, 1, 4.0 / 3, 10.0 / 7, 0, 0},
              {std::log(5), 0, std::log(3), std::log(7), kEmpty, kEmpty});
}

TEST(StepReference, MeanDataInBaseTwoHasLseInBaseTwo) {
  Case test{small_scenario(4, DataKind::kMean), batch_of({9, 3}), {}};
  test.scenario.lse.base = LseBase::kTwo;
  const LayerCheck result = check(test);
  EXPECT_EQ(verdict(result), "+++");
  expect_rows(result, {7.0 / 3, 2}, {std::log2(9), std::log2(3)});
}

TEST(StepReference, WideInterleaveLeavesShardsEmpty) {
  Case test{small_scenario(4, DataKind::kMean), batch_of({100, 64, 1}), {}};
  test.scenario.interleave = 64;
  const LayerCheck result = check(test);
  EXPECT_EQ(verdict(result), "+++");
  expect_rows(result, {1.36, 1, 1}, {std::log(100), std::log(64), 0});
}

TEST(StepReference, HandGivenLengthsReplaceTheInterleave) {
  Case test{small_scenario(2, DataKind::kMean), batch_of({5, 4}), {}};
  test.batch.local_seq_lens = {{1, 4}, {4, 0}};
  const LayerCheck result = check(test);
  EXPECT_EQ(verdict(result), "+++");
  expect_rows(result, {1.8, 1}, {std::log(5), std::log(4)});
}

TEST(StepReference, EveryQueryOfARequestSeesKeysUpToItsOwnPosition) {
  const Case three{small_scenario(2, DataKind::kMean), batch_of({5}, {0, 3}), {}};
  const LayerCheck result = check(three);
  EXPECT_EQ(verdict(result), "+++");
  expect_rows(result, {4.0 / 3, 1.5, 1.4}, {std::log(3), std::log(4), std::log(5)});

  Case wide = three;
  wide.scenario.interleave = 64;
  expect_rows(check(wide), {1, 1, 1}, {std::log(3), std::log(4), std::log(5)});
}

TEST(StepReference, RowIsEmptyOnARankWhoseOnlyKeyLiesInItsFuture) {
  const Case test{small_scenario(4, DataKind::kMean), batch_of({3}, {0, 2}), {}};
  NaiveStep step = run_naive(test.scenario, test.batch);
  EXPECT_EQ(verdict(check(test, step)), "+++");
  expect_rows(check(test, step), {1.5, 2}, {std::log(2), std::log(3)});

  step.ranks[2].partial_lse[0] = 0;  // row 0 attends to token 2, its future
  EXPECT_EQ(verdict(check(test, step)), "-++");
}

TEST(StepReference, EmptyRowsArePaddingAndRowsWithoutKeys) {
  const Scenario scenario = small_scenario(2);
  const Batch batch = batch_of({0, 5, 0}, {0, 2, 3, 4});
  EXPECT_EQ(StepReference(scenario, batch, 6, "a2a").empty_rows(),
            (std::vector<std::int64_t>{0, 1, 3, 4, 5}));
  EXPECT_EQ(StepReference(scenario, Batch{}, 2, "a2a").empty_rows(),
            (std::vector<std::int64_t>{0, 1}));
}

TEST(StepReference, StepWithoutRequestsIsAllPadding) {
  const Case test{small_scenario(2), Batch{}, {.num_rows = 4}};
  const LayerCheck result = check(test);
  EXPECT_EQ(verdict(result), "+++");
  expect_rows(result, {0, 0, 0, 0}, {kEmpty, kEmpty, kEmpty, kEmpty});
}

// Seeds of mixed batches, on every dtype, base, rounding and output form.
TEST(LayerCheck, PassesWhatIsRight) {
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    for (const LseTag lse : {LseTag{LseBase::kE, DType::kFp32}, LseTag{LseBase::kTwo, dtype}}) {
      for (const int world_size : {1, 2, 4}) {
        for (const bool summed : {false, true}) {
          Case test{small_scenario(world_size),
                    batch_of({37, 0, 3, 200, 2}, {0, 1, 2, 5, 7, 9}),
                    {.num_rows = 11, .layer = 3, .all_heads = summed, .rounded_terms = summed},
                    summed ? "ag_ar" : "direct"};
          test.scenario.dtype = dtype;
          test.scenario.lse = lse;
          test.scenario.interleave = 1 + world_size;
          for (test.scenario.data.seed = 1; test.scenario.data.seed < 6;
               ++test.scenario.data.seed) {
            const LayerCheck result = check(test);
            ASSERT_EQ(verdict(result), "+++")
                << name(dtype) << " N " << world_size << " seed " << test.scenario.data.seed;
          }
        }
      }
    }
  }
}

TEST(LayerCheck, LayersCanBeCheckedInAnyOrder) {
  const Case test{small_scenario(2), batch_of({37, 5}), {}};
  const StepReference reference(test.scenario, test.batch, 2, "a2a");
  const NaiveStep first = run_naive(test.scenario, test.batch, {.layer = 0});
  const NaiveStep second = run_naive(test.scenario, test.batch, {.layer = 1});
  const LayerResult alone = reference.check_layer(first.observation()).expected;
  EXPECT_TRUE(reference.check_layer(second.observation()).passed());
  EXPECT_TRUE(reference.check_layer(first.observation()).passed());
  EXPECT_EQ(reference.check_layer(first.observation()).expected.out, alone.out);
  NaiveStep mislabelled = first;
  mislabelled.layer = 1;
  EXPECT_EQ(verdict(reference.check_layer(mislabelled.observation())), "-+-");
}

TEST(LayerCheck, FindsOneMissingKeyAmong4096) {
  for (const int world_size : {1, 8}) {
    Case test{small_scenario(world_size), batch_of({4096}), {}};
    test.scenario.model.num_heads = 8;
    EXPECT_EQ(verdict(check(test)), "+++");
    for (const std::int64_t token : {0, 1234, 4095}) {
      test.run.lost_token = token;
      const LayerCheck result = check(test);
      EXPECT_EQ(verdict(result), "-+-") << "N " << world_size << ", token " << token;
      ASSERT_TRUE(result.partial.first_bad);
      EXPECT_EQ(result.partial.first_bad->at.rank, token % world_size);
      EXPECT_EQ(verdict(check(test, {.partial = false})), "++-");
      EXPECT_EQ(verdict(check(test, {.step = false})), "-++");
    }
  }
}

// Each shard is right for itself: only the unsharded pass knows that token 4 exists.
TEST(LayerCheck, FindsAKeyThatNoRankOwns) {
  Case test{small_scenario(2), batch_of({5}), {.lost_token = 4}};
  test.batch.local_seq_lens = {{2}, {2}};
  NaiveStep step = run_naive(test.scenario, test.batch, test.run);
  EXPECT_EQ(verdict(check(test, step)), "++-");
  for (NaiveStep::Rank& rank : step.ranks) rank.lse.clear();  // the values alone show it, too
  EXPECT_EQ(verdict(check(test, step)), "++-");
}

TEST(LayerCheck, FindsTheFaultOfAnyRequest) {
  const Case test{small_scenario(2), batch_of(std::vector<std::int64_t>(24, 500)), {}};
  const NaiveStep right = run_naive(test.scenario, test.batch);
  for (std::int64_t row = 0; row < 24; ++row) {
    NaiveStep step = right;
    step.ranks[0].partial_lse[static_cast<std::size_t>(row * 4)] += 0.01f;
    const LayerCheck result = check(test, step);
    ASSERT_TRUE(result.partial.first_bad) << "row " << row;
    EXPECT_EQ(result.partial.first_bad->at.row, row);
  }
}

// Without the lse, the values alone must show it.
TEST(LayerCheck, FindsAMissingKeyInTheValuesAlone) {
  Case test{small_scenario(2), batch_of({4096}), {.lost_token = 77}};
  NaiveStep step = run_naive(test.scenario, test.batch, test.run);
  const NaiveStep right = run_naive(test.scenario, test.batch);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    step.ranks[rank].partial_lse = right.ranks[rank].partial_lse;
    step.ranks[rank].lse.clear();
  }
  const LayerCheck result = check(test, step);
  EXPECT_FALSE(result.partial.passed());
  ASSERT_TRUE(result.partial.first_bad);
  EXPECT_GE(result.partial.first_bad->at.element, 0);
}

TEST(LayerCheck, FindsPartialsOfSwappedRanks) {
  const Case test{small_scenario(2), batch_of({9, 6}), {}};
  NaiveStep step = run_naive(test.scenario, test.batch);
  std::swap(step.ranks[0].partial_out, step.ranks[1].partial_out);
  std::swap(step.ranks[0].partial_lse, step.ranks[1].partial_lse);
  EXPECT_EQ(verdict(check(test, step)), "-++");
}

TEST(LayerCheck, FindsOutputsOfSwappedRanks) {
  const Case test{small_scenario(2), batch_of({9, 6}), {}};
  NaiveStep step = run_naive(test.scenario, test.batch);
  std::swap(step.ranks[0].out, step.ranks[1].out);
  EXPECT_EQ(verdict(check(test, step)), "+--");
}

TEST(LayerCheck, FindsLseOfSwappedRanksInTheCombine) {
  const Case test{small_scenario(2), batch_of({9, 2}), {.swapped_lse = true}};
  EXPECT_EQ(verdict(check(test)), "+--");
}

TEST(LayerCheck, FindsAWrongBaseInEitherDirection) {
  Case test{small_scenario(2), batch_of({5, 3}), {.combine_base = LseBase::kTwo}};
  EXPECT_EQ(verdict(check(test)), "+--");
  test.scenario.lse.base = LseBase::kTwo;
  test.run.combine_base = LseBase::kE;
  EXPECT_EQ(verdict(check(test)), "+--");
}

TEST(LayerCheck, FindsAPaddedRowThatIsNotExactlyZero) {
  const Case test{small_scenario(2), batch_of({5, 0}), {.num_rows = 3}};
  const NaiveStep right = run_naive(test.scenario, test.batch, test.run);
  EXPECT_EQ(verdict(check(test, right)), "+++");
  for (const std::int64_t row : {1, 2}) {
    NaiveStep step = right;
    const auto head = static_cast<std::size_t>(row * step.heads_per_rank);
    step.ranks[1].out[head * 16 + 3] = std::numeric_limits<float>::denorm_min();
    const LayerCheck out = check(test, step);
    EXPECT_EQ(verdict(out), "+--");
    EXPECT_EQ(out.step.first_bad->at, (ElementPlace{0, 1, row, 2, 3}));
    step = right;
    step.ranks[1].lse[head] = -3e38f;
    const LayerCheck lse = check(test, step);
    EXPECT_EQ(verdict(lse), "+--");
    EXPECT_EQ(lse.combine.first_bad->at, (ElementPlace{0, 1, row, 2, -1}));
  }
}

TEST(LayerCheck, FindsOneElementTwoUlpsOff) {
  const Case test{small_scenario(2), batch_of({40, 6}), {}};
  NaiveStep step = run_naive(test.scenario, test.batch);
  float& element = step.ranks[1].out[16 + 5];  // row 0, its second head
  element += 2 * static_cast<float>(ulp(DType::kBf16, element));
  const LayerCheck result = check(test, step);
  EXPECT_FALSE(result.combine.passed());
  EXPECT_EQ(result.combine.first_bad->at, (ElementPlace{0, 1, 0, 3, 5}));
  EXPECT_EQ(result.combine.first_bad->got, element);
}

TEST(LayerCheck, SumOfRoundedTermsIsAllowedToTheStrategiesThatDoIt) {
  Case test{small_scenario(4), batch_of({400, 60}), {.rounded_terms = true}, "ag_rs"};
  EXPECT_EQ(verdict(check(test)), "+++");
  for (const std::string_view strategy : {"a2a", "direct"}) {
    test.strategy = strategy;
    EXPECT_FALSE(check(test).combine.passed()) << strategy;
  }
  test.strategy = "ag_rs";
  test.scenario.reduce_dtype = ReduceDtype::kFp32;
  EXPECT_FALSE(check(test).combine.passed());
}

TEST(LayerCheck, AttentionMustSayThatARowIsEmpty) {
  const Case test{small_scenario(4), batch_of({2, 9}), {.num_rows = 3}};
  const NaiveStep right = run_naive(test.scenario, test.batch, test.run);
  for (const float stale : {0.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const std::size_t row : {0, 2}) {
      NaiveStep step = right;
      step.ranks[3].partial_lse[row * 4 + 1] = stale;
      const LayerCheck result = check(test, step);
      EXPECT_EQ(verdict(result), "-++");
      EXPECT_EQ(result.partial.first_bad->at,
                (ElementPlace{0, 3, static_cast<std::int64_t>(row), 1, -1}));
      EXPECT_EQ(verdict(check(test, step, {.partial_empty_rows = false})), "+++");
    }
  }
}

TEST(LayerCheck, NanInARowWithKeysFailsEverywhere) {
  const Case test{small_scenario(2), batch_of({5}), {}};
  NaiveStep step = run_naive(test.scenario, test.batch);
  step.ranks[0].partial_out[0] = std::nanf("");
  step.ranks[0].out[0] = std::nanf("");
  EXPECT_EQ(verdict(check(test, step)), "---");
}

TEST(LayerCheck, LseIsNotComparedWhereItIsNotReturned) {
  const Case test{small_scenario(2), batch_of({5}), {}};
  NaiveStep step = run_naive(test.scenario, test.batch);
  step.ranks[1].lse[0] += 0.01f;
  EXPECT_EQ(verdict(check(test, step)), "+--");
  step.ranks[1].lse.clear();
  EXPECT_EQ(verdict(check(test, step)), "+++");
}

TEST(LayerCheck, RefusesTensorsOfAnotherSize) {
  const Case test{small_scenario(2), batch_of({5}), {}};
  const NaiveStep right = run_naive(test.scenario, test.batch);
  NaiveStep step = right;
  step.query.pop_back();
  EXPECT_THROW(check(test, step), std::invalid_argument);
  step = right;
  step.ranks[1].partial_lse.push_back(0);
  EXPECT_THROW(check(test, step), std::invalid_argument);
  step = right;
  step.ranks[0].out.pop_back();
  EXPECT_THROW(check(test, step), std::invalid_argument);
  step = right;
  step.ranks.pop_back();
  EXPECT_THROW(check(test, step), std::invalid_argument);
}

// Partials as a scenario gives them: scalars, one per rank.
Case given_case(std::vector<double> lse, std::vector<double> out) {
  Case test{small_scenario(static_cast<int>(lse.size()), DataKind::kGiven), batch_of({8, 3}), {}};
  for (const double value : lse) test.scenario.data.given_lse.push_back({{}, {value}, {}});
  for (const double value : out) test.scenario.data.given_out.push_back({{}, {value}, {}});
  return test;
}

NaiveStep run_given(const Case& test, double out, double lse) {
  NaiveStep step = run_naive(test.scenario, test.batch);
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    NaiveStep::Rank& rank = step.ranks[r];
    const auto fill = [](std::vector<float>& tensor, double value) {
      std::fill(tensor.begin(), tensor.end(), static_cast<float>(value));
    };
    fill(rank.partial_lse, test.scenario.data.given_lse[r].values[0]);
    fill(rank.partial_out,
         round_to(DType::kBf16, static_cast<float>(test.scenario.data.given_out[r].values[0])));
    fill(rank.out, round_to(DType::kBf16, static_cast<float>(out)));
    fill(rank.lse, lse);
  }
  return step;
}

TEST(GivenData, StepIsTheCombineOfTheGivenPartials) {
  const Case test = given_case({37.1, 36.9}, {1, 2});
  const double lse = 37 + std::log(std::exp(0.1) + std::exp(-0.1));
  const LayerCheck result = check(test, run_given(test, 1.450166, lse));
  EXPECT_EQ(verdict(result), "+++");
  EXPECT_NEAR(result.expected.out[0], 1.450166, 1e-6);
  EXPECT_NEAR(result.expected.lse[0], lse, 1e-5);  // 37.1 and 36.9 are rounded to fp32
  EXPECT_EQ(verdict(check(test, run_given(test, 1.5, lse))), "+--");
}

TEST(GivenData, PartialsAreRoundedAsAnEngineHoldsThem) {
  Case test = given_case({37.1, 36.9}, {1.001, 3.001});
  test.scenario.lse.dtype = DType::kBf16;  // both become 37
  const LayerCheck result = check(test, run_given(test, 2, 37 + std::log(2)));
  EXPECT_EQ(result.expected.out[0], 2);
  EXPECT_NEAR(result.expected.lse[0], 37 + std::log(2), 1e-13);
}

TEST(GivenData, EngineThatCombinesOtherPartialsFailsTheStepOnly) {
  const Case test = given_case({2, 2}, {1, 2});
  const NaiveStep other = run_given(given_case({2, 2}, {3, 4}), 3.5, 2 + std::log(2));
  EXPECT_EQ(verdict(check(test, other)), "++-");
  EXPECT_EQ(verdict(check(test, other, {.step = false})), "+++");
}

TEST(GivenData, RowsThatAreEmptyOnEveryRankAreEmpty) {
  const double nan = std::nan("");
  const Case empty = given_case({kEmpty, -kEmpty}, {nan, nan});
  EXPECT_EQ(verdict(check(empty, run_given(empty, 0, kEmpty))), "+++");
  EXPECT_EQ(StepReference(empty.scenario, empty.batch, 3, "a2a").empty_rows(),
            (std::vector<std::int64_t>{0, 1, 2}));
  const Case half = given_case({kEmpty, 0}, {nan, 5});
  EXPECT_EQ(StepReference(half.scenario, half.batch, 3, "a2a").empty_rows(),
            (std::vector<std::int64_t>{2}));
}

TEST(GivenData, NestedListsGiveEveryElement) {
  Case test = given_case({0}, {0});
  test.batch = batch_of({1});
  test.run.num_rows = 2;  // the second is padding, and past the end of the lists
  GivenTensor lse{{1, 4}, {0, 1, 2, 3}, {}};
  GivenTensor out{{1, 4, 16}, std::vector<double>(64), {}};
  std::iota(out.values.begin(), out.values.end(), 1.0);
  test.scenario.data.given_lse = {lse};
  test.scenario.data.given_out = {out};
  const LayerCheck result = check(test);
  EXPECT_EQ(std::vector<double>(result.expected.lse.begin(), result.expected.lse.begin() + 5),
            (std::vector<double>{0, 1, 2, 3, kEmpty}));
  EXPECT_EQ(std::vector<double>(result.expected.out.begin(), result.expected.out.begin() + 64),
            out.values);
  EXPECT_EQ(result.expected.out[64], 0);
}

TEST(GivenData, InfinitePartialStaysInfinite) {
  const Case test = given_case({1, 1}, {INFINITY, 1});
  NaiveStep step = run_given(test, INFINITY, 1 + std::log(2));
  EXPECT_EQ(verdict(check(test, step)), "+++");
  step.ranks[0].out[0] = 3e38f;
  EXPECT_EQ(verdict(check(test, step)), "+--");
}

bool passes(float got, double want) {
  Comparison comparison;
  const WantedRow row{.out = Eigen::ArrayXd::Constant(1, want),
                      .out_tolerance = Eigen::ArrayXd::Constant(1, ulp(DType::kFp16, want)),
                      .lse = 0,
                      .lse_tolerance = 0};
  compare_elements(comparison, {}, std::span(&got, 1), row, DType::kFp16);
  return comparison.passed();
}

TEST(Overflow, InfinityIsRightWhereTheRightValueOverflowsTheDtype) {
  EXPECT_TRUE(passes(INFINITY, 70000));
  EXPECT_TRUE(passes(-INFINITY, -65520));
  EXPECT_FALSE(passes(-INFINITY, 70000));
  EXPECT_FALSE(passes(INFINITY, 65000));
  EXPECT_FALSE(passes(65504, 70000));
}

}  // namespace
}  // namespace dcp
