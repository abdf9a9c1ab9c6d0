// Partial attention of grouped heads, in one pass and in splits, against a plain loop in float64.
#include "kernels/gqa_attention.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "core/error.hpp"
#include "kernels/split_combine.hpp"
#include "tests/kernels/plain_attention.hpp"

namespace dcp::test {
namespace {

constexpr DType kDTypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

struct Case {
  Batch batch;
  int num_tokens;
  int num_heads = 6;
  int num_kv_heads = 2;
  int head_dim = 24;
  int block_size = 4;
  DType dtype = DType::kBf16;
  DType lse_dtype = DType::kFp32;
  LseBase base = LseBase::kE;
  EmptyRowMode mode = EmptyRowMode::kExact;
  Layout layout = Layout::kTokenMajor;
  float scale = 0.2f;
  int num_splits = 1;
  bool fp8_cache = false;

  DType kv_dtype() const { return fp8_cache ? DType::kFp8E4m3 : dtype; }
};

// A case with its tensors: random queries, keys and values, pages scattered over a cache with spare
// pages of NaN.
struct Problem {
  Case c;
  int pages = 1;  // per request
  int num_blocks = 0;
  Rows query;
  Rows out;
  Rows lse;
  Rows split_out;
  Rows split_lse;
  Tensor cache;
  std::vector<std::int32_t> table;
  std::int32_t mode;

  explicit Problem(const Case& given)
      : c(given),
        query(c.dtype, {c.num_tokens, c.num_heads, c.head_dim}, c.layout),
        out(c.dtype, {c.num_tokens, c.num_heads, c.head_dim}, c.layout),
        lse(c.lse_dtype, {c.num_tokens, c.num_heads, 1}, c.layout),
        split_out(DType::kFp32, {c.num_splits * c.num_tokens, c.num_heads, c.head_dim}),
        split_lse(DType::kFp32, {c.num_splits * c.num_tokens, c.num_heads, 1}),
        cache(c.kv_dtype(), 0),
        mode(static_cast<std::int32_t>(c.mode)) {
    for (const int length : c.batch.seq_lens) {
      pages = std::max(pages, (length + c.block_size - 1) / c.block_size);
    }
    const int requests = static_cast<int>(c.batch.seq_lens.size());
    num_blocks = pages * requests + 3;
    cache = Tensor(c.kv_dtype(), std::int64_t{num_blocks} * c.block_size * row_dim());
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(num_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::mt19937 random(11);
    std::shuffle(blocks.begin(), blocks.end(), random);
    table.assign(blocks.begin(), blocks.end() - 3);

    std::normal_distribution<float> normal;
    for (int t = 0; t < c.num_tokens; ++t) {
      for (int h = 0; h < c.num_heads; ++h) {
        for (int i = 0; i < c.head_dim; ++i) query.set(t, h, i, normal(random));
      }
    }
    for (int r = 0; r < requests; ++r) {
      for (int k = 0; k < c.batch.seq_lens[r]; ++k) {
        for (int i = 0; i < row_dim(); ++i) cache.set(row_at(r, k) + i, normal(random));
      }
    }
  }

  int row_dim() const { return 2 * c.num_kv_heads * c.head_dim; }

  std::int64_t row_at(int request, int key) const {
    const std::int64_t block = table[request * pages + key / c.block_size];
    return (block * c.block_size + key % c.block_size) * row_dim();
  }
  std::int64_t key_at(int request, int key, int kv_head) const {
    return row_at(request, key) + kv_head * c.head_dim;
  }
  std::int64_t value_at(int request, int key, int kv_head) const {
    return row_at(request, key) + (c.num_kv_heads + kv_head) * c.head_dim;
  }

  GqaAttention::Params params() {
    GqaAttention::Params p{};
    p.query = query.view();
    p.kv_cache = cache.data();
    p.kv_dtype = cache.dtype();
    p.block_table = table.data();
    p.batch = c.batch.metadata();
    p.out = c.num_splits == 1 ? out.view() : split_out.view();
    p.lse = c.num_splits == 1 ? lse.view() : split_lse.view();
    p.empty_row_mode = c.num_splits == 1 ? &mode : nullptr;
    p.num_tokens = c.num_tokens;
    p.num_blocks = num_blocks;
    p.block_table_stride = pages;
    p.block_size = c.block_size;
    p.num_heads = c.num_heads;
    p.num_kv_heads = c.num_kv_heads;
    p.head_dim = c.head_dim;
    p.softmax_scale = c.scale;
    p.base = c.base;
    p.num_splits = c.num_splits;
    return p;
  }

  void run() {
    GqaAttention::run(params());
    if (c.num_splits == 1) return;
    SplitCombine::run({.split_out = static_cast<const float*>(split_out.view().data),
                       .split_lse = static_cast<const float*>(split_lse.view().data),
                       .out = out.view(),
                       .lse = lse.view(),
                       .batch = c.batch.metadata(),
                       .empty_row_mode = &mode,
                       .num_tokens = c.num_tokens,
                       .num_heads = c.num_heads,
                       .head_dim = c.head_dim,
                       .num_splits = c.num_splits,
                       .base = c.base});
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

  PlainState plain(int row, int head, int first_key, int end_key) const {
    const int request = request_and_keys(row).first;
    const int kv_head = head / (c.num_heads / c.num_kv_heads);
    return plain_attention(
        [&](int i) { return query.get(row, head, i); },
        {.count = end_key - first_key,
         .key_dim = c.head_dim,
         .value_dim = c.head_dim,
         .key = [&](int k,
                    int i) { return cache.get(key_at(request, first_key + k, kv_head) + i); },
         .value = [&](int k,
                      int i) { return cache.get(value_at(request, first_key + k, kv_head) + i); }},
        c.scale, c.base);
  }

  void expect_rows() const {
    for (int row = 0; row < c.num_tokens; ++row) {
      const int num_keys = request_and_keys(row).second;
      for (int head = 0; head < c.num_heads && num_keys > 0; ++head) {
        expect_partial(out, lse, row, head, plain(row, head, 0, num_keys));
      }
    }
  }
};

void expect_right(const Case& c) {
  Problem problem(c);
  problem.run();
  problem.expect_rows();
}

TEST(GqaAttention, MatchesAPlainLoopForEveryDTypeAndBase) {
  for (const DType dtype : kDTypes) {
    for (const DType lse_dtype : kDTypes) {
      for (const LseBase base : {LseBase::kE, LseBase::kTwo}) {
        for (const int num_splits : {1, 3}) {
          SCOPED_TRACE(testing::Message() << name(dtype) << " " << name(lse_dtype) << " "
                                          << static_cast<int>(base) << " " << num_splits);
          expect_right({.batch = {{0, 1, 2, 3}, {7, 130, 64}},
                        .num_tokens = 3,
                        .dtype = dtype,
                        .lse_dtype = lse_dtype,
                        .base = base,
                        .num_splits = num_splits});
        }
      }
    }
  }
}

TEST(GqaAttention, ReadsACacheOfFp8ForEveryDTypeOfTheQueryAndInSplits) {
  for (const DType dtype : kDTypes) {
    for (const int num_splits : {1, 3}) {
      SCOPED_TRACE(testing::Message() << name(dtype) << " " << num_splits);
      expect_right({.batch = {{0, 1, 2, 3}, {7, 130, 64}},
                    .num_tokens = 3,
                    .dtype = dtype,
                    .num_splits = num_splits,
                    .fp8_cache = true});
    }
  }
}

TEST(GqaAttention, QueryHeadsReadTheirOwnKvHead) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {8, 1}, {8, 2}, {8, 8}, {6, 3}}) {
    SCOPED_TRACE(testing::Message() << heads << " " << kv_heads);
    expect_right({.batch = {{0, 1, 2}, {65, 3}},
                  .num_tokens = 2,
                  .num_heads = heads,
                  .num_kv_heads = kv_heads});
  }
}

TEST(GqaAttention, MatchesAPlainLoopForAnyDimensions) {
  for (const int dim : {8, 64, 72, 128, 256}) {
    for (const int block_size : {1, 3, 64, 100}) {
      SCOPED_TRACE(testing::Message() << dim << " " << block_size);
      expect_right({.batch = {{0, 1, 2}, {65, 129}},
                    .num_tokens = 2,
                    .num_heads = 4,
                    .head_dim = dim,
                    .block_size = block_size,
                    .dtype = DType::kFp32,
                    .scale = 1.0f / std::sqrt(static_cast<float>(dim))});
    }
  }
}

TEST(GqaAttention, SeesKeysUpToTheRowsCausalBound) {
  for (const int num_splits : {1, 4}) {
    expect_right({.batch = {{0, 3, 3, 5, 6}, {9, 4, 70, 5}, {7, 8, 9, 64, 65, 2}},
                  .num_tokens = 6,
                  .num_splits = num_splits});
  }
}

TEST(GqaAttention, TakesAndWritesAnyLayout) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(static_cast<int>(layout));
    expect_right({.batch = {{0, 2, 3}, {9, 5}}, .num_tokens = 3, .layout = layout});
    expect_right(
        {.batch = {{0, 2, 3}, {9, 5}}, .num_tokens = 3, .layout = layout, .num_splits = 2});
  }
}

TEST(GqaAttention, LeavesEmptyRowsAsTheModeSaysWithAndWithoutSplits) {
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
    for (const int num_splits : {1, 2}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(left.mode) << " " << num_splits);
      // Row 0: keys. Row 1: causal bound 0. Row 2: request without keys. Rows 3, 4: padding.
      Problem problem({.batch = {{0, 2, 3}, {5, 0}, {5, 0, 1, 0, 0}},
                       .num_tokens = 5,
                       .mode = left.mode,
                       .num_splits = num_splits});
      problem.out.storage.fill(5.0f);
      problem.lse.storage.fill(5.0f);
      problem.run();
      problem.expect_rows();
      for (int row = 1; row < 5; ++row) {
        const bool is_padding = row >= 3;
        EXPECT_TRUE(same(problem.lse.get(row, 5), is_padding ? left.pad_lse : left.empty_lse));
        EXPECT_TRUE(same(problem.out.get(row, 5, 23), is_padding ? left.pad_out : left.empty_out));
      }
    }
  }
}

// Three keys in four splits: 0, 1, 1, 1; each split is attention over its own keys.
TEST(GqaAttention, SplitsAreContiguousBalancedAndExactWhereEmpty) {
  Problem problem({.batch = {{0, 1, 2}, {3, 10}}, .num_tokens = 2, .num_splits = 4});
  problem.run();
  problem.expect_rows();
  const std::vector<std::vector<int>> boundaries = {{0, 0, 1, 2, 3}, {0, 2, 5, 7, 10}};
  for (int row = 0; row < 2; ++row) {
    for (int split = 0; split < 4; ++split) {
      const int begin = boundaries[row][split];
      const int end = boundaries[row][split + 1];
      for (int head = 0; head < 6; ++head) {
        const int at = split * 2 + row;
        if (begin < end) {
          expect_partial(problem.split_out, problem.split_lse, at, head,
                         problem.plain(row, head, begin, end));
          continue;
        }
        EXPECT_EQ(problem.split_lse.get(at, head), -kInfinity);
        EXPECT_EQ(problem.split_out.get(at, head, 7), 0.0f);
      }
    }
  }
}

// Equal keys and a query of 0: each output is the value, and the lse log(number of keys).
TEST(GqaAttention, StaysExactOverLongConstantData) {
  for (const int num_splits : {1, 7, 1024}) {
    for (const float value : {0.1f, 1.0f / 3.0f, -1.9999999f}) {
      Problem problem({.batch = {{0, 1}, {100003}},
                       .num_tokens = 1,
                       .num_heads = 1,
                       .num_kv_heads = 1,
                       .head_dim = 16,
                       .block_size = 64,
                       .dtype = DType::kFp32,
                       .num_splits = num_splits});
      problem.query.storage.fill(0.0f);
      problem.cache.fill(value);
      problem.run();
      EXPECT_NEAR(problem.lse.get(0, 0), std::log(100003.0), 0x1p-16 * std::log(100003.0));
      for (int i = 0; i < 16; ++i) {
        EXPECT_NEAR(problem.out.get(0, 0, i), value,
                    ulp(DType::kFp32, value) + 0x1p-18 * std::abs(value))
            << num_splits;
      }
    }
  }
}

TEST(GqaAttention, StaysExactOverLongRandomData) {
  for (const int num_splits : {1, 64}) {
    expect_right({.batch = {{0, 1}, {30011}},
                  .num_tokens = 1,
                  .num_heads = 2,
                  .num_kv_heads = 2,
                  .block_size = 64,
                  .dtype = DType::kFp32,
                  .num_splits = num_splits});
  }
}

TEST(GqaAttention, ShowsANanKeyInTheRowsAndHeadsThatSeeIt) {
  for (const int num_splits : {1, 3}) {
    Problem problem({.batch = {{0, 2}, {70}, {69, 70}}, .num_tokens = 2, .num_splits = num_splits});
    problem.cache.set(problem.key_at(0, 69, 1) + 3, kNan);
    problem.run();
    for (int head = 0; head < 6; ++head) {
      EXPECT_FALSE(std::isnan(problem.lse.get(0, head)));
      EXPECT_EQ(std::isnan(problem.lse.get(1, head)), head >= 3) << num_splits;
      EXPECT_EQ(std::isnan(problem.out.get(1, head, 3)), head >= 3);
    }
  }
}

TEST(GqaAttention, ANanValueStaysInItsElement) {
  Problem problem({.batch = {{0, 1}, {70}}, .num_tokens = 1});
  problem.cache.set(problem.value_at(0, 69, 0) + 3, kNan);
  problem.run();
  EXPECT_TRUE(std::isnan(problem.out.get(0, 2, 3)));
  EXPECT_FALSE(std::isnan(problem.out.get(0, 2, 4)));
  EXPECT_FALSE(std::isnan(problem.out.get(0, 3, 3)));
  EXPECT_FALSE(std::isnan(problem.lse.get(0, 2)));
}

TEST(GqaAttention, RefusesABlockOutsideTheCache) {
  Problem problem({.batch = {{0, 1}, {8}}, .num_tokens = 1});
  problem.table[1] = 5;
  try {
    problem.run();
    ADD_FAILURE() << "block 5 of 5 was accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), "illegal_address");
    EXPECT_NE(failure.why().find("gqa_attention reads local key 4 of request 0 from block 5"),
              std::string::npos)
        << failure.why();
  }
}

}  // namespace
}  // namespace dcp::test
