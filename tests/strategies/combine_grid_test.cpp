// Every strategy against the float64 combine, over a grid of world sizes, head dims and dtypes.
#include <gtest/gtest.h>

#include <tuple>

#include "harness/partials_check.hpp"
#include "tests/strategies/variants.hpp"

namespace dcp::test {
namespace {

constexpr LseTag kLseTags[] = {{LseBase::kE, DType::kFp32},   {LseBase::kE, DType::kFp16},
                               {LseBase::kE, DType::kBf16},   {LseBase::kTwo, DType::kFp32},
                               {LseBase::kTwo, DType::kFp16}, {LseBase::kTwo, DType::kBf16}};

std::string text(const PartialsSpec& spec) {
  return "N " + std::to_string(spec.world_size) + ", D " + std::to_string(spec.head_dim) + ", " +
         std::string(name(spec.dtype)) + ", base " + (spec.lse.base == LseBase::kTwo ? "2" : "e") +
         ", lse " + std::string(name(spec.lse.dtype)) + ", storage " +
         std::to_string(static_cast<int>(spec.storage)) + ", data seed " +
         std::to_string(spec.seed);
}

std::string text(const Comparison& comparison) {
  if (!comparison.first_bad) return "right";
  const auto& [at, got, want] = *comparison.first_bad;
  return "rank " + std::to_string(at.rank) + ", row " + std::to_string(at.row) + ", head " +
         std::to_string(at.head) + ", element " + std::to_string(at.element) + ": got " +
         std::to_string(got) + ", want " + std::to_string(want) + "; worst error over tolerance " +
         std::to_string(comparison.max_error_over_tolerance);
}

std::vector<PartialsSpec> all_tags(PartialsSpec spec) {
  std::vector<PartialsSpec> specs;
  for (const LseTag& lse : kLseTags) {
    spec.lse = lse;
    spec.storage = static_cast<Storage>(specs.size() % 3);
    spec.seed += 1;
    specs.push_back(spec);
  }
  return specs;
}

void expect_right(const PartialsSpec& spec) {
  SCOPED_TRACE(text(spec));
  const PartialsCase partials = random_partials(spec);
  const std::vector<CombinedRow> right = combine_partials(partials);
  for (const StrategyVariant& variant : all_variants(spec.dtype)) {
    const PartialsResult result = run_partials(*variant.strategy, partials, variant.options());
    const CombineVerdict verdict =
        check_combined(partials, result, right,
                       combine_tolerance(*variant.strategy, partials, variant.reduce_dtype));
    EXPECT_TRUE(verdict.out.passed()) << variant.name << ": out of " << text(verdict.out);
    EXPECT_TRUE(verdict.lse.passed()) << variant.name << ": lse of " << text(verdict.lse);
  }
}

class CombineGrid : public testing::TestWithParam<std::tuple<int, DType>> {
 protected:
  PartialsSpec spec(int head_dim) const {
    const auto [world_size, dtype] = GetParam();
    const auto place = static_cast<std::uint64_t>(world_size + 7 * static_cast<int>(dtype));
    return {.world_size = world_size,
            .heads_per_rank = world_size > 8 ? 1 : 2,
            .head_dim = head_dim,
            .dtype = dtype,
            .seed = 100 * place + 10'000 * static_cast<std::uint64_t>(head_dim)};
  }
};

TEST_P(CombineGrid, ShortRowsAreRightForEveryLseTag) {
  for (const int head_dim : {8, 24}) {
    for (const PartialsSpec& tagged : all_tags(spec(head_dim))) expect_right(tagged);
  }
}

// 64 ranks have 4096 partials of a row: there one length and one tag per dtype must do.
TEST_P(CombineGrid, LongRowsAreRight) {
  const auto [world_size, dtype] = GetParam();
  if (world_size > 8) {
    const auto which = static_cast<std::size_t>(dtype);
    return expect_right(all_tags(spec(which % 2 == 0 ? 576 : 512))[2 * which]);
  }
  for (const int head_dim : {512, 576}) {
    for (const PartialsSpec& tagged : all_tags(spec(head_dim))) expect_right(tagged);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, CombineGrid,
                         testing::Combine(testing::Values(1, 2, 3, 5, 6, 7, 8, 64),
                                          testing::Values(DType::kFp16, DType::kBf16,
                                                          DType::kFp32)),
                         [](const auto& test) {
                           return "N" + std::to_string(std::get<0>(test.param)) + "_" +
                                  std::string(name(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace dcp::test
