#include "kernels/new_attention.hpp"

#include <gtest/gtest.h>

#include <random>

#include "core/error.hpp"
#include "tests/kernels/plain_attention.hpp"

namespace dcp::test {
namespace {

constexpr int kKvHeads = 2;
constexpr int kHeadsPerKvHead = 3;
constexpr int kHeads = kKvHeads * kHeadsPerKvHead;
constexpr int kDim = 24;
constexpr int kRowDim = 2 * kKvHeads * kDim;

// Random queries of all heads and new tokens; the op sees heads first_head .. first_head + n - 1.
struct Problem {
  Batch batch;  // of new tokens
  int num_tokens;
  int first_head;
  int num_heads;
  DType dtype;
  LseBase base = LseBase::kE;
  Rows query;
  Tensor new_kv;
  Rows out;
  Rows lse;
  std::vector<std::int32_t> first_rows;  // [R]
  std::int32_t mode = 0;

  Problem(const Batch& given, int tokens, int first, int heads, DType type = DType::kFp32)
      : batch(given),
        num_tokens(tokens),
        first_head(first),
        num_heads(heads),
        dtype(type),
        query(dtype, {tokens, kHeads, kDim}),
        new_kv(dtype, std::int64_t{tokens} * kRowDim),
        out(dtype, {tokens, heads, kDim}),
        lse(DType::kFp32, {tokens, heads, 1}),
        first_rows(batch.query_start_loc) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const int real_tokens = batch.query_start_loc.back();  // padding stays NaN
    for (int t = 0; t < real_tokens; ++t) {
      for (int i = 0; i < kRowDim; ++i) new_kv.set(t * kRowDim + i, normal(random));
      for (int h = 0; h < kHeads; ++h) {
        for (int i = 0; i < kDim; ++i) query.set(t, h, i, normal(random));
      }
    }
  }

  NewAttention::Params params() {
    return {.query = heads_from(query.view(), first_head),
            .new_kv = new_kv.data(),
            .first_rows = first_rows.data(),
            .batch = batch.metadata(),
            .out = out.view(),
            .lse = static_cast<float*>(lse.view().data),
            .empty_row_mode = &mode,
            .num_tokens = num_tokens,
            .num_new_rows = num_tokens,
            .num_heads = num_heads,
            .first_head = first_head,
            .heads_per_kv_head = kHeadsPerKvHead,
            .num_kv_heads = kKvHeads,
            .head_dim = kDim,
            .softmax_scale = 0.2f,
            .base = base};
  }

  // Row `row` sees new tokens first .. row.
  void expect_row(int row, int first) const {
    for (int head = 0; head < num_heads; ++head) {
      const int kv_head = (first_head + head) / kHeadsPerKvHead;
      const auto at = [&](int k, int vector) {
        return (first + k) * kRowDim + (vector + kv_head) * kDim;
      };
      expect_partial(
          out, lse, row, head,
          plain_attention([&](int i) { return query.get(row, first_head + head, i); },
                          {.count = row - first + 1,
                           .key_dim = kDim,
                           .value_dim = kDim,
                           .key = [&](int k, int i) { return new_kv.get(at(k, 0) + i); },
                           .value = [&](int k, int i) { return new_kv.get(at(k, kKvHeads) + i); }},
                          0.2f, base));
    }
  }
};

// Requests of 1, 3, 0 and 2 new tokens, then padding.
const Batch kMixed{{0, 1, 4, 4, 6}, {1, 3, 0, 2}, {1, 1, 2, 3, 1, 2, 0}};

TEST(NewAttention, IsCausalAmongTheRowsOwnNewTokens) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    for (const LseBase base : {LseBase::kE, LseBase::kTwo}) {
      Problem problem(kMixed, 7, 0, kHeads, dtype);
      problem.base = base;
      NewAttention::run(problem.params());
      const int first_rows[] = {0, 1, 1, 1, 4, 4};
      for (int row = 0; row < 6; ++row) problem.expect_row(row, first_rows[row]);
    }
  }
}

// Heads 2 and 3 of six read KV heads 0 and 1.
TEST(NewAttention, OwnHeadsReadTheKvHeadOfTheirPlaceInTheGroup) {
  for (int first = 0; first < kHeads; ++first) {
    for (int count = 1; first + count <= kHeads; ++count) {
      Problem problem(kMixed, 7, first, count);
      NewAttention::run(problem.params());
      problem.expect_row(3, 1);
    }
  }
}

// The second ubatch of a request of three new tokens: its only row sees all three.
TEST(NewAttention, SeesNewTokensBeforeItsOwnRows) {
  Problem whole(kMixed, 7, 0, kHeads);
  NewAttention::run(whole.params());
  const Batch cut{{0, 0, 1, 1, 3}, {1, 3, 0, 2}, {3, 1, 2, 0}};
  NewAttention::Params params = whole.params();
  params.query.data = static_cast<const float*>(params.query.data) + 3 * kHeads * kDim;
  Rows out(DType::kFp32, {4, kHeads, kDim});
  Rows lse(DType::kFp32, {4, kHeads, 1});
  params.batch = cut.metadata();
  params.out = out.view();
  params.lse = static_cast<float*>(lse.view().data);
  params.num_tokens = 4;
  NewAttention::run(params);
  for (int row = 0; row < 4; ++row) {
    for (int head = 0; head < kHeads; ++head) {
      EXPECT_EQ(lse.bits(row, head), whole.lse.bits(row + 3, head));
      EXPECT_EQ(out.bits(row, head, 5), whole.out.bits(row + 3, head, 5));
    }
  }
}

TEST(NewAttention, LeavesRowsWithoutNewTokensAsTheModeSays) {
  Problem problem({{0, 2}, {0}, {0, 0, 0}}, 3, 0, 2);
  for (const EmptyRowMode mode : {EmptyRowMode::kExact, EmptyRowMode::kPlusInf}) {
    problem.mode = static_cast<std::int32_t>(mode);
    NewAttention::run(problem.params());
    for (int row = 0; row < 3; ++row) {
      EXPECT_EQ(problem.lse.get(row, 1), mode == EmptyRowMode::kExact ? -kInfinity : kInfinity);
    }
  }
}

TEST(NewAttention, RefusesARowPastTheLastOne) {
  Problem problem({{0, 2}, {3}, {1, 3}}, 2, 0, 2);
  try {
    NewAttention::run(problem.params());
    ADD_FAILURE() << "row 2 of 2 was read";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), "illegal_address");
    EXPECT_NE(failure.why().find("new token 2 of request 0 from row 2 of 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace dcp::test
