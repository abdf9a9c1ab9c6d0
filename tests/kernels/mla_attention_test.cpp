// Partial attention against a plain loop in float64, written from the formula alone.
#include "kernels/mla_attention.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "core/error.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

constexpr DType kDTypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

struct Case {
  Batch batch;
  int num_tokens;
  int num_heads = 3;
  int qk_head_dim = 24;
  int v_head_dim = 16;
  int block_size = 4;
  DType dtype = DType::kBf16;
  DType lse_dtype = DType::kFp32;
  LseBase base = LseBase::kE;
  EmptyRowMode mode = EmptyRowMode::kExact;
  Layout layout = Layout::kTokenMajor;
  float scale = 0.3f;
  bool fp8_cache = false;

  DType kv_dtype() const { return fp8_cache ? DType::kFp8E4m3 : dtype; }
};

// A case with its tensors: random queries and keys, pages scattered over a cache with spare pages
// of NaN.
struct Problem {
  Case c;
  int pages = 1;  // per request
  int num_blocks;
  Rows query;
  Rows out;
  Rows lse;
  Tensor cache;
  std::vector<std::int32_t> table;
  std::int32_t mode;

  explicit Problem(const Case& given)
      : c(given),
        query(c.dtype, {c.num_tokens, c.num_heads, c.qk_head_dim}, c.layout),
        out(c.dtype, {c.num_tokens, c.num_heads, c.v_head_dim}, c.layout),
        lse(c.lse_dtype, {c.num_tokens, c.num_heads, 1}, c.layout),
        cache(c.kv_dtype(), 0),
        mode(static_cast<std::int32_t>(c.mode)) {
    for (const int length : c.batch.seq_lens) {
      pages = std::max(pages, (length + c.block_size - 1) / c.block_size);
    }
    const int requests = static_cast<int>(c.batch.seq_lens.size());
    num_blocks = pages * requests + 3;
    cache = Tensor(c.kv_dtype(), std::int64_t{num_blocks} * c.block_size * c.qk_head_dim);
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(num_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::mt19937 random(11);
    std::shuffle(blocks.begin(), blocks.end(), random);
    table.assign(blocks.begin(), blocks.end() - 3);

    std::normal_distribution<float> normal;
    for (int t = 0; t < c.num_tokens; ++t) {
      for (int h = 0; h < c.num_heads; ++h) {
        for (int i = 0; i < c.qk_head_dim; ++i) query.set(t, h, i, normal(random));
      }
    }
    for (int r = 0; r < requests; ++r) {
      for (int k = 0; k < c.batch.seq_lens[r]; ++k) {
        for (int i = 0; i < c.qk_head_dim; ++i) cache.set(key_at(r, k) + i, normal(random));
      }
    }
  }

  std::int64_t key_at(int request, int key) const {
    const std::int64_t block = table[request * pages + key / c.block_size];
    return (block * c.block_size + key % c.block_size) * c.qk_head_dim;
  }

  MlaAttention::Params params() {
    MlaAttention::Params p{};
    p.query = query.view();
    p.kv_cache = cache.data();
    p.kv_dtype = cache.dtype();
    p.block_table = table.data();
    p.batch = c.batch.metadata();
    p.out = out.view();
    p.lse = lse.view();
    p.empty_row_mode = &mode;
    p.num_tokens = c.num_tokens;
    p.num_blocks = num_blocks;
    p.block_table_stride = pages;
    p.block_size = c.block_size;
    p.num_heads = c.num_heads;
    p.qk_head_dim = c.qk_head_dim;
    p.v_head_dim = c.v_head_dim;
    p.softmax_scale = c.scale;
    p.base = c.base;
    return p;
  }

  // The request of a row and the keys it sees, by walking the requests; request -1: padding.
  std::pair<int, int> request_and_keys(int row) const {
    for (std::size_t r = 0; r < c.batch.seq_lens.size(); ++r) {
      if (row < c.batch.query_start_loc[r] || row >= c.batch.query_start_loc[r + 1]) continue;
      int keys = c.batch.seq_lens[r];
      if (!c.batch.causal_bounds.empty()) keys = std::min(keys, c.batch.causal_bounds[row]);
      return {static_cast<int>(r), keys};
    }
    return {-1, 0};
  }

  void expect_row(int row, int head, int request, int num_keys) const {
    std::vector<double> scores;
    for (int k = 0; k < num_keys; ++k) {
      double dot = 0.0;
      for (int i = 0; i < c.qk_head_dim; ++i) {
        dot += double{query.get(row, head, i)} * double{cache.get(key_at(request, k) + i)};
      }
      scores.push_back(double{c.scale} * dot);
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (const double score : scores) sum += std::exp(score - max);
    for (int i = 0; i < c.v_head_dim; ++i) {
      double want = 0.0;
      double magnitude = 0.0;
      for (int k = 0; k < num_keys; ++k) {
        const double term =
            std::exp(scores[k] - max) / sum * double{cache.get(key_at(request, k) + i)};
        want += term;
        magnitude += std::abs(term);
      }
      ASSERT_NEAR(out.get(row, head, i), want, ulp(c.dtype, want) + 0x1p-18 * magnitude)
          << "row " << row << " head " << head << " element " << i;
    }
    const double log_base = c.base == LseBase::kE ? 1.0 : std::log(2.0);
    const double want = (max + std::log(sum)) / log_base;
    ASSERT_NEAR(lse.get(row, head), want,
                0x1p-16 * std::max(1.0, std::abs(want)) + ulp(c.lse_dtype, want) / 2)
        << "row " << row << " head " << head;
  }

  void expect_rows() const {
    for (int row = 0; row < c.num_tokens; ++row) {
      const auto [request, num_keys] = request_and_keys(row);
      for (int head = 0; head < c.num_heads && num_keys > 0; ++head) {
        expect_row(row, head, request, num_keys);
      }
    }
  }
};

void expect_right(const Case& c) {
  Problem problem(c);
  MlaAttention::run(problem.params());
  problem.expect_rows();
}

TEST(MlaAttention, MatchesAPlainLoopForEveryDTypeAndBase) {
  for (const DType dtype : kDTypes) {
    for (const DType lse_dtype : kDTypes) {
      for (const LseBase base : {LseBase::kE, LseBase::kTwo}) {
        SCOPED_TRACE(testing::Message()
                     << name(dtype) << " " << name(lse_dtype) << " " << static_cast<int>(base));
        expect_right({.batch = {{0, 1, 2, 3}, {7, 130, 64}},
                      .num_tokens = 3,
                      .dtype = dtype,
                      .lse_dtype = lse_dtype,
                      .base = base});
      }
    }
  }
}

TEST(MlaAttention, ReadsACacheOfFp8ForEveryDTypeOfTheQuery) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(name(dtype));
    expect_right({.batch = {{0, 1, 2, 3}, {7, 130, 64}},
                  .num_tokens = 3,
                  .dtype = dtype,
                  .fp8_cache = true});
  }
}

TEST(MlaAttention, MatchesAPlainLoopForAnyDimensions) {
  for (const auto& [qk, v] : {std::pair{8, 8}, {72, 64}, {136, 128}, {96, 72}, {576, 512}}) {
    for (const int block_size : {1, 3, 64, 100}) {
      SCOPED_TRACE(testing::Message() << qk << " " << v << " " << block_size);
      expect_right({.batch = {{0, 1, 2}, {65, 129}},
                    .num_tokens = 2,
                    .num_heads = 2,
                    .qk_head_dim = qk,
                    .v_head_dim = v,
                    .block_size = block_size,
                    .dtype = DType::kFp32,
                    .scale = 1.0f / std::sqrt(static_cast<float>(qk))});
    }
  }
}

TEST(MlaAttention, SeesKeysUpToTheRowsCausalBound) {
  expect_right({.batch = {{0, 3, 3, 5, 6}, {9, 4, 70, 5}, {7, 8, 9, 64, 65, 8}}, .num_tokens = 6});
}

TEST(MlaAttention, TakesAndWritesAnyLayout) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(static_cast<int>(layout));
    expect_right({.batch = {{0, 2, 3}, {9, 5}}, .num_tokens = 3, .num_heads = 4, .layout = layout});
  }
}

TEST(MlaAttention, FollowsAMaximumThatRisesTileByTile) {
  Problem problem({.batch = {{0, 1}, {640}}, .num_tokens = 1, .dtype = DType::kFp32});
  for (int h = 0; h < 3; ++h) problem.query.set(0, h, 20, 1.0f);
  for (int k = 0; k < 640; ++k) {
    problem.cache.set(problem.key_at(0, k) + 20, static_cast<float>(k) / 16.0f);
  }
  MlaAttention::run(problem.params());
  problem.expect_rows();
}

// What an empty row (not padding) and a padded row hold after each mode, before: 5 everywhere.
TEST(MlaAttention, LeavesEmptyRowsAsTheModeSays) {
  struct Left {
    EmptyRowMode mode;
    float empty_out, empty_lse, pad_out, pad_lse;
  };
  const Left cases[] = {
      {EmptyRowMode::kExact, 0.0f, -kInfinity, 0.0f, -kInfinity},
      {EmptyRowMode::kPoisonEmpty, kNan, kNan, kNan, kNan},
      {EmptyRowMode::kPlusInf, kNan, kInfinity, kNan, kInfinity},
      {EmptyRowMode::kNanPad, 0.0f, -kInfinity, kNan, kNan},
      {EmptyRowMode::kUntouched, 5.0f, 5.0f, 5.0f, 5.0f},
  };
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const Left& left : cases) {
    for (const DType lse_dtype : kDTypes) {
      SCOPED_TRACE(static_cast<int>(left.mode));
      // Row 0: keys. Row 1: causal bound 0. Row 2: request without keys. Rows 3, 4: padding.
      Problem problem({.batch = {{0, 2, 3}, {5, 0}, {5, 0, 1, 0, 0}},
                       .num_tokens = 5,
                       .lse_dtype = lse_dtype,
                       .mode = left.mode});
      problem.out.storage.fill(5.0f);
      problem.lse.storage.fill(5.0f);
      MlaAttention::run(problem.params());
      problem.expect_rows();
      for (int row = 1; row < 5; ++row) {
        const bool is_padding = row >= 3;
        for (int h = 0; h < 3; ++h) {
          EXPECT_TRUE(same(problem.lse.get(row, h), is_padding ? left.pad_lse : left.empty_lse));
          for (int i = 0; i < 16; ++i) {
            EXPECT_TRUE(
                same(problem.out.get(row, h, i), is_padding ? left.pad_out : left.empty_out));
          }
        }
      }
    }
  }
}

TEST(MlaAttention, TakesEveryRowForPaddingWithoutRequests) {
  Problem problem({.batch = {{0}, {}}, .num_tokens = 2});
  MlaAttention::Params params = problem.params();
  params.block_table = nullptr;
  params.kv_cache = nullptr;
  MlaAttention::run(params);
  EXPECT_EQ(problem.lse.get(1, 2), -kInfinity);
  EXPECT_EQ(problem.out.get(1, 2, 15), 0.0f);
}

// Equal keys and a query of 0: each output is the value, and the lse log(number of keys).
TEST(MlaAttention, StaysExactOverLongConstantData) {
  for (const float value : {0.1f, 1.0f / 3.0f, 0.7654321f, -1.9999999f}) {
    Problem problem({.batch = {{0, 1}, {100003}},
                     .num_tokens = 1,
                     .num_heads = 1,
                     .block_size = 64,
                     .dtype = DType::kFp32});
    for (int i = 0; i < 24; ++i) problem.query.set(0, 0, i, 0.0f);
    problem.cache.fill(value);
    MlaAttention::run(problem.params());
    EXPECT_NEAR(problem.lse.get(0, 0), std::log(100003.0), 0x1p-16 * std::log(100003.0));
    for (int i = 0; i < 16; ++i) {
      EXPECT_NEAR(problem.out.get(0, 0, i), value,
                  ulp(DType::kFp32, value) + 0x1p-18 * std::abs(value));
    }
  }
}

// Equal probabilities that are no round numbers: their sum is as long as that of the values.
TEST(MlaAttention, StaysExactOverManyEqualKeysBesideALargerOne) {
  for (const float score : {0.3f, 0.7f, 1.1f, 1.9f}) {
    Problem problem({.batch = {{0, 1}, {100003}},
                     .num_tokens = 1,
                     .num_heads = 1,
                     .block_size = 64,
                     .dtype = DType::kFp32,
                     .scale = 1.0f});
    problem.query.storage.fill(0.0f);
    problem.query.set(0, 0, 20, 1.0f);
    problem.cache.fill(0.1f);
    for (int k = 0; k < 100003; ++k) {
      problem.cache.set(problem.key_at(0, k) + 20, k == 0 ? score : 0.0f);
    }
    MlaAttention::run(problem.params());
    problem.expect_rows();
  }
}

TEST(MlaAttention, StaysExactOverLongRandomData) {
  expect_right({.batch = {{0, 1}, {100003}},
                .num_tokens = 1,
                .num_heads = 1,
                .block_size = 64,
                .dtype = DType::kFp32});
}

TEST(MlaAttention, ShowsANanKeyInTheRowsThatSeeIt) {
  Problem problem({.batch = {{0, 2}, {70}, {69, 70}}, .num_tokens = 2});
  problem.cache.set(problem.key_at(0, 69) + 3, kNan);
  MlaAttention::run(problem.params());
  EXPECT_FALSE(std::isnan(problem.lse.get(0, 0)));
  EXPECT_FALSE(std::isnan(problem.out.get(0, 0, 3)));
  EXPECT_TRUE(std::isnan(problem.lse.get(1, 0)));
  EXPECT_TRUE(std::isnan(problem.out.get(1, 0, 3)));
}

TEST(MlaAttention, RefusesABlockOutsideTheCache) {
  for (const std::int32_t block : {-1, 5, 1 << 30}) {
    Problem problem({.batch = {{0, 1}, {8}}, .num_tokens = 1});
    ASSERT_EQ(problem.num_blocks, 5);
    problem.table[1] = block;
    try {
      MlaAttention::run(problem.params());
      ADD_FAILURE() << "block " << block << " was accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), "illegal_address");
      EXPECT_NE(failure.why().find("block " + std::to_string(block)), std::string::npos);
    }
  }
}

TEST(MlaAttention, RefusesToReadPastTheBlockTable) {
  Problem problem({.batch = {{0, 1}, {8}}, .num_tokens = 1});
  problem.c.batch.seq_lens[0] = 9;  // a third page, in a table of two
  EXPECT_THROW(MlaAttention::run(problem.params()), Failure);
}

}  // namespace
}  // namespace dcp::test
