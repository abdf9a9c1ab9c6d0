#include "reference/kv_gather_check.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "core/poison.hpp"
#include "core/scenario_reader.hpp"

namespace dcp {
namespace {

using Bytes = std::vector<std::byte>;

// Contexts of 4 and 2 tokens; two rows for each of two ranks.
Scenario scenario_of(const std::string& keys, const std::string& dtype = "bf16") {
  return parse_scenario(
      "test.yaml", "world_size: 2\nmodel: tiny\nkv_gather: {tokens: 4, dim: 2, dtype: " + dtype +
                       "}\n" + keys + "batches: {b: {seq_lens: [5, 3]}}\n");
}

std::vector<float> decoded(const Bytes& bytes, DType dtype) {
  std::vector<float> values;
  for (std::size_t i = 0; i < bytes.size() / size_bytes(dtype); ++i) {
    values.push_back(load_element(bytes.data(), dtype, i));
  }
  return values;
}

TEST(KvGatherReference, ListsTheFirstContextTokensOfEachRankInTheOrderOfRanks) {
  const Scenario scenario = scenario_of("data: {kind: mean}\n");
  const RowRange both[] = {{0, 2}};
  const KvGatherReference reference(scenario, scenario.batches[0], both);
  EXPECT_EQ(decoded(reference.expected(0), DType::kBf16),
            (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST(KvGatherReference, RowsThatNoTokenHasArePoison) {
  const Scenario scenario = scenario_of("data: {kind: mean}\n");
  const RowRange parts[] = {{0, 1}, {1, 1}};
  const KvGatherReference reference(scenario, scenario.batches[0], parts);
  const Bytes bytes = reference.expected(0);
  ASSERT_EQ(bytes.size(), 2u * 4 * 2 * 2);
  Bytes want(8);
  poison(want.data(), want.size());
  // The second ubatch's request has one token of context on each rank.
  EXPECT_TRUE(std::equal(want.begin() + 4, want.end(), bytes.begin() + 20));
  const std::vector<float> values = decoded(bytes, DType::kBf16);
  EXPECT_EQ(values[8], 1);
  EXPECT_EQ(values[12], 2);
}

TEST(KvGatherReference, WritesTheBitsOfTheDataInEveryDtype) {
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp8E4m3}) {
    const Scenario scenario = scenario_of("layers: 200\n", std::string(name(dtype)));
    const RowRange both[] = {{0, 2}};
    const KvGatherReference reference(scenario, scenario.batches[0], both);
    const InputData data(scenario);
    for (int layer = 0; layer < 200; ++layer) {
      const Bytes bytes = reference.expected(layer);
      // Rank 1's rows are its tokens 1 and 3 of the first request.
      for (const std::int64_t token : {1, 3}) {
        std::vector<float> values(2);
        data.chunk_row({layer, 0, token, 1}, dtype, values);
        for (std::size_t i = 0; i < 2; ++i) {
          Bytes want(size_bytes(dtype));
          store_element(want.data(), dtype, 0, values[i]);
          const std::size_t at = (4 + static_cast<std::size_t>(token / 2) * 2 + i) * want.size();
          ASSERT_TRUE(std::equal(want.begin(), want.end(), bytes.begin() + static_cast<int>(at)))
              << name(dtype) << ", layer " << layer << ", token " << token;
        }
      }
    }
  }
}

TEST(KvGatherReference, SeesOneBitOnOneRank) {
  const Scenario scenario = scenario_of("");
  const RowRange both[] = {{0, 2}};
  const KvGatherReference reference(scenario, scenario.batches[0], both);
  std::vector<Bytes> ranks(2, reference.expected(0));
  EXPECT_TRUE(reference.check(0, ranks).passed());
  EXPECT_FALSE(reference.check(1, ranks).passed()) << "another layer has other rows";
  ranks[1][10] ^= std::byte{1};
  const Comparison comparison = reference.check(0, ranks);
  ASSERT_TRUE(comparison.first_bad.has_value());
  EXPECT_EQ(comparison.first_bad->at.rank, 1);
  EXPECT_EQ(comparison.first_bad->at.row, 2);
  EXPECT_EQ(comparison.first_bad->at.element, 1);
}

TEST(KvGatherReference, TellsNansOfOtherBitsApart) {
  const Scenario scenario = scenario_of("");
  const RowRange parts[] = {{0, 1}, {1, 1}};
  const KvGatherReference reference(scenario, scenario.batches[0], parts);
  std::vector<Bytes> ranks(2, reference.expected(0));
  ranks[0][20] ^= std::byte{1};  // within a row of poison
  EXPECT_FALSE(reference.check(0, ranks).passed());
}

TEST(KvGatherReference, RanksThatWereNotThereAreNotChecked) {
  const Scenario scenario = scenario_of("");
  const RowRange both[] = {{0, 2}};
  const KvGatherReference reference(scenario, scenario.batches[0], both);
  std::vector<Bytes> ranks = {reference.expected(0), {}};
  EXPECT_TRUE(reference.check(0, ranks).passed());
  ranks[1].resize(3);
  EXPECT_THROW(reference.check(0, ranks), std::invalid_argument);
}

}  // namespace
}  // namespace dcp
