// The stored vectors: partials and the right result in float64, made outside this project.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/dtype.hpp"
#include "reference/combine.hpp"

namespace dcp {
namespace {

using Json = nlohmann::json;

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

Json read_cases(const std::string& file) {
  std::ifstream stream(DCPSIM_SOURCE_DIR "/tests/data/golden/" + file);
  return Json::parse(stream).at("cases");
}

DType dtype_named(const std::string& text) {
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    if (name(dtype) == text) return dtype;
  }
  return DType::kFp32;
}

double element_of(DType dtype, const Json& bits) {
  const auto word = bits.get<std::uint32_t>();
  if (dtype == DType::kFp32) return std::bit_cast<float>(word);
  const auto half = static_cast<std::uint16_t>(word);
  return load_element(&half, dtype, 0);
}

double truth_of(const Json& value) {
  if (value.is_null()) return std::nan("");
  return value.is_string() ? kEmpty : value.get<double>();
}

// Masked by request only: local length 0, or past the last boundary.
bool is_masked(const Json& test, int rank, int row) {
  if (test.at("seq_lens").is_null()) return false;
  const auto boundaries = test.at("query_start_loc").get<std::vector<int>>();
  std::size_t request = 0;
  while (request + 1 < boundaries.size() && boundaries[request + 1] <= row) ++request;
  return request + 1 == boundaries.size() || test["seq_lens"][rank][request].get<int>() == 0;
}

CombinedRow combine_case(const Json& test, int row, int head) {
  const int n = test.at("world_size");
  const int d = test.at("head_dim");
  const int index = row * test.at("num_heads").get<int>() + head;
  Eigen::ArrayXd lse(n);
  Eigen::ArrayXXd outs(d, n);
  for (int rank = 0; rank < n; ++rank) {
    lse[rank] = is_masked(test, rank, row)
                    ? kEmpty
                    : element_of(DType::kFp32, test["partial_lse_bits"][rank][index]);
    for (int i = 0; i < d; ++i) {
      outs(i, rank) =
          element_of(dtype_named(test["dtype"]), test["partial_out_bits"][rank][index * d + i]);
    }
  }
  return combine(lse, outs, test.at("lse_base") == "2" ? LseBase::kTwo : LseBase::kE);
}

void expect_equal(double got, double want, double scale) {
  if (!std::isfinite(want)) {
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << " for " << want;
  } else {
    EXPECT_NEAR(got, want, 1e-12 * scale);
  }
}

class StoredVectors : public testing::TestWithParam<std::string> {};

TEST_P(StoredVectors, AreReproducedByTheCombine) {
  const Json cases = read_cases(GetParam());
  ASSERT_FALSE(cases.empty());
  for (const Json& test : cases) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const int num_heads = test.at("num_heads");
    const int d = test.at("head_dim");
    for (int row = 0; row < test.at("num_tokens").get<int>(); ++row) {
      for (int head = 0; head < num_heads; ++head) {
        const CombinedRow combined = combine_case(test, row, head);
        const int index = row * num_heads + head;
        const double lse = truth_of(test["truth_lse"][index]);
        expect_equal(combined.lse, lse, std::abs(lse));
        for (int i = 0; i < d; ++i) {
          expect_equal(combined.out[i], truth_of(test["truth_out"][index * d + i]),
                       combined.weighted_magnitude[i]);
        }
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StoredVectors,
                         testing::Values("seed_kernels.json", "wire_rows.json"),
                         [](const auto& test) {
                           return test.param.substr(0, test.param.find('.'));
                         });

}  // namespace
}  // namespace dcp
