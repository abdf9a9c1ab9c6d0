#include "core/data.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace dcp {
namespace {

InputData make_data(DataKind kind, DType dtype = DType::kFp32, std::uint64_t seed = 7) {
  Scenario scenario;
  scenario.world_size = 1;
  scenario.tensor_parallel_size = 1;
  scenario.data.kind = kind;
  scenario.data.seed = seed;
  scenario.dtype = dtype;
  return InputData(scenario);
}

std::vector<float> key(const InputData& data, int layer, int request, std::int64_t token,
                       std::size_t size = 24, int owner = 0) {
  std::vector<float> out(size);
  data.kv_row(layer, request, token, owner, out);
  return out;
}

std::vector<float> query(const InputData& data, int request, std::int64_t position, int head,
                         std::size_t size = 24) {
  std::vector<float> out(size);
  data.query(request, position, head, out);
  return out;
}

struct Moments {
  double mean = 0;
  double variance = 0;
  double skewness = 0;
  double kurtosis = 0;
};

Moments moments(const std::vector<float>& values) {
  const auto count = static_cast<double>(values.size());
  Moments m;
  for (const float value : values) m.mean += value / count;
  double third = 0;
  double fourth = 0;
  for (const float value : values) {
    const double d = value - m.mean;
    m.variance += d * d / count;
    third += d * d * d / count;
    fourth += d * d * d * d / count;
  }
  m.skewness = third / std::pow(m.variance, 1.5);
  m.kurtosis = fourth / (m.variance * m.variance);
  return m;
}

std::vector<float> many_keys(const InputData& data) {
  std::vector<float> all;
  for (std::int64_t token = 0; token < 4096; ++token) {
    const std::vector<float> row = key(data, 0, 0, token, 256);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

// Standard errors over 2^20 values: mean 0.001, variance 0.0014, skewness 0.0024, kurtosis 0.0048.
TEST(RandomData, HasTheMomentsOfTheStandardNormal) {
  const Moments m = moments(many_keys(make_data(DataKind::kRandom)));
  EXPECT_NEAR(m.mean, 0, 0.004);
  EXPECT_NEAR(m.variance, 1, 0.006);
  EXPECT_NEAR(m.skewness, 0, 0.01);
  EXPECT_NEAR(m.kurtosis, 3, 0.02);
}

TEST(RandomData, HasTheQuantilesOfTheStandardNormal) {
  const std::vector<float> values = many_keys(make_data(DataKind::kRandom));
  const double count = static_cast<double>(values.size());
  for (const double x : {-3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 1.5, 2.5}) {
    double below = 0;
    for (const float value : values) below += value < x;
    EXPECT_NEAR(below / count, 0.5 * std::erfc(-x / std::sqrt(2.0)), 0.002) << "x = " << x;
  }
}

TEST(RandomData, ElementsOfARowAndNeighbouringRowsAreUncorrelated) {
  const InputData data = make_data(DataKind::kRandom);
  const std::vector<float> values = many_keys(data);
  for (const std::size_t lag : {1, 2, 3, 64, 256}) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < values.size(); ++i) sum += values[i] * values[i + lag];
    EXPECT_NEAR(sum / static_cast<double>(values.size()), 0, 0.005) << "lag " << lag;
  }
}

TEST(RandomData, EveryCoordinateChangesTheRow) {
  const InputData data = make_data(DataKind::kRandom);
  std::set<std::vector<float>> rows;
  std::size_t count = 0;
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      for (int c = 0; c < 4; ++c) {
        rows.insert(key(data, a, b, c));
        rows.insert(query(data, a, b, c));
        count += 2;
      }
    }
  }
  rows.insert(key(make_data(DataKind::kRandom, DType::kFp32, 8), 0, 0, 0));
  EXPECT_EQ(rows.size(), count + 1);
}

TEST(RandomData, DoesNotDependOnTheOrderOfCallsOnTheOwnerOrOnTheLength) {
  const InputData data = make_data(DataKind::kRandom);
  const std::vector<float> first = key(data, 1, 2, 3, 577);
  key(data, 1, 2, 4);
  query(data, 2, 3, 1);
  EXPECT_EQ(key(data, 1, 2, 3, 577, 5), first);
  EXPECT_EQ(key(make_data(DataKind::kRandom), 1, 2, 3, 577), first);
  for (const std::size_t size : {1, 2, 63, 64, 65, 576}) {
    EXPECT_EQ(key(data, 1, 2, 3, size), std::vector<float>(first.begin(), first.begin() + size));
  }
}

// Written down once: an input that changes makes every stored result of a user worthless.
TEST(RandomData, IsTheSameForEver) {
  const std::vector<float> row = key(make_data(DataKind::kRandom), 3, 1, 1000, 4);
  const std::vector<float> want = {0x1.de6826p-3f, 0x1.874f5ep-1f, 0x1.70a2b6p+0f, 0x1.6b3a0ap-1f};
  EXPECT_EQ(row, want);
}

TEST(RandomData, IsTheFp32ValueRoundedToTheDtype) {
  const std::vector<float> exact = key(make_data(DataKind::kRandom), 0, 1, 2, 576);
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    const std::vector<float> rounded = key(make_data(DataKind::kRandom, dtype), 0, 1, 2, 576);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_EQ(rounded[i], round_to(dtype, exact[i])) << name(dtype) << " element " << i;
    }
  }
}

InputData make_gqa_data(DataKind kind, DType dtype = DType::kFp32, int tensor_parallel_size = 2) {
  Scenario scenario;
  scenario.world_size = 2;
  scenario.tensor_parallel_size = tensor_parallel_size;
  scenario.model.attention = Attention::kGqa;
  scenario.model.num_kv_heads = 4;
  scenario.model.head_dim = 24;
  scenario.data.kind = kind;
  scenario.dtype = dtype;
  return InputData(scenario);
}

// [2, KV heads, head_dim] at the same place as an MLA key: the first key is that key.
TEST(RandomData, AGqaRowHoldsAKeyAndAValueOfEachKvHead) {
  const std::vector<float> row = key(make_gqa_data(DataKind::kRandom), 1, 2, 3, 8 * 24);
  std::set<std::vector<float>> vectors;
  for (std::size_t i = 0; i < 8; ++i) {
    vectors.emplace(row.begin() + static_cast<std::ptrdiff_t>(i * 24),
                    row.begin() + static_cast<std::ptrdiff_t>(i * 24 + 24));
  }
  EXPECT_EQ(vectors.size(), 8u);
  EXPECT_EQ(std::vector<float>(row.begin(), row.begin() + 24),
            key(make_data(DataKind::kRandom), 1, 2, 3));
  EXPECT_EQ(key(make_gqa_data(DataKind::kRandom), 1, 2, 3, 8 * 24, 5), row);
}

TEST(RandomData, AGqaRowHoldsTheKvHeadsOfTheGroup) {
  const std::vector<float> four = key(make_gqa_data(DataKind::kRandom), 0, 0, 7, 8 * 24);
  const std::vector<float> two =
      key(make_gqa_data(DataKind::kRandom, DType::kFp32, 4), 0, 0, 7, 4 * 24);
  for (std::size_t i = 0; i < 2 * 24; ++i) {
    EXPECT_EQ(two[i], four[i]) << "key " << i;
    EXPECT_EQ(two[2 * 24 + i], four[4 * 24 + i]) << "value " << i;
  }
}

TEST(RandomData, AGqaRowIsRoundedToTheDtype) {
  const std::vector<float> exact = key(make_gqa_data(DataKind::kRandom), 0, 1, 2, 8 * 24);
  const std::vector<float> rounded =
      key(make_gqa_data(DataKind::kRandom, DType::kBf16), 0, 1, 2, 8 * 24);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(rounded[i], round_to(DType::kBf16, exact[i]));
  }
}

TEST(ChunkData, IsRoundedToItsOwnDtypeAndIsNoKeyOfTheCache) {
  const InputData data = make_data(DataKind::kRandom, DType::kFp16);
  std::vector<float> whole(24), rounded(24);
  data.chunk_row({.layer = 1, .request = 2, .token = 9, .owner = 0}, DType::kFp32, whole);
  EXPECT_NE(whole, key(make_data(DataKind::kRandom), 1, 2, 9));
  for (const DType dtype : {DType::kFp16, DType::kBf16, DType::kFp8E4m3}) {
    data.chunk_row({.layer = 1, .request = 2, .token = 9, .owner = 3}, dtype, rounded);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(rounded[i], round_to(dtype, whole[i])) << name(dtype) << " " << i;
    }
  }
}

TEST(ChunkData, OtherKindsSayWhoseTokenItIs) {
  std::vector<float> row(3);
  make_data(DataKind::kMean)
      .chunk_row({.layer = 0, .request = 0, .token = 5, .owner = 2}, DType::kFp8E4m3, row);
  EXPECT_EQ(row, (std::vector<float>{3, 3, 3}));
}

TEST(MeanData, KeysAreTheOwnersNumberPlusOneAndQueriesZero) {
  for (const DataKind kind : {DataKind::kMean, DataKind::kGiven}) {
    const InputData data = make_data(kind, DType::kBf16);
    for (int owner = 0; owner < 8; ++owner) {
      const std::vector<float> want(24, static_cast<float>(owner + 1));
      EXPECT_EQ(key(data, 1, 2, 3, 24, owner), want);
    }
    EXPECT_EQ(query(data, 1, 2, 3), std::vector<float>(24, 0.0f));
    EXPECT_EQ(key(make_gqa_data(kind), 1, 2, 3, 8 * 24, 1), std::vector<float>(8 * 24, 2.0f));
  }
}

}  // namespace
}  // namespace dcp
