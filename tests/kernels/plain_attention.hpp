// Attention and the combine of states as plain loops in float64, written from the formulas alone.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "core/lse.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {

struct PlainState {
  std::vector<double> out;
  std::vector<double> magnitude;  // sum of probability * |value|
  double lse;
};

inline double log_of_base(LseBase base) { return base == LseBase::kE ? 1.0 : std::log(2.0); }

// `key` and `value` give element i of key k; at least one key.
struct PlainKeys {
  int count;
  int key_dim;
  int value_dim;
  std::function<double(int k, int i)> key;
  std::function<double(int k, int i)> value;
};

inline PlainState plain_attention(const std::function<double(int i)>& query, const PlainKeys& keys,
                                  double scale, LseBase base) {
  std::vector<double> scores;
  for (int k = 0; k < keys.count; ++k) {
    double dot = 0.0;
    for (int i = 0; i < keys.key_dim; ++i) dot += query(i) * keys.key(k, i);
    scores.push_back(scale * dot);
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (const double score : scores) sum += std::exp(score - max);
  PlainState state{.out = std::vector<double>(static_cast<std::size_t>(keys.value_dim)),
                   .magnitude = std::vector<double>(static_cast<std::size_t>(keys.value_dim)),
                   .lse = (max + std::log(sum)) / log_of_base(base)};
  for (int k = 0; k < keys.count; ++k) {
    for (int i = 0; i < keys.value_dim; ++i) {
      const double term =
          std::exp(scores[static_cast<std::size_t>(k)] - max) / sum * keys.value(k, i);
      state.out[static_cast<std::size_t>(i)] += term;
      state.magnitude[static_cast<std::size_t>(i)] += std::abs(term);
    }
  }
  return state;
}

// By the tolerance of a partial.
inline void expect_partial(const Rows& out, const Rows& lse, int row, int head,
                           const PlainState& want) {
  const DType dtype = out.storage.dtype();
  for (std::size_t i = 0; i < want.out.size(); ++i) {
    ASSERT_NEAR(out.get(row, head, static_cast<int>(i)), want.out[i],
                ulp(dtype, want.out[i]) + 0x1p-18 * want.magnitude[i])
        << "row " << row << " head " << head << " element " << i;
  }
  ASSERT_NEAR(lse.get(row, head), want.lse,
              0x1p-16 * std::max(1.0, std::abs(want.lse)) + ulp(lse.storage.dtype(), want.lse) / 2)
      << "row " << row << " head " << head;
}

}  // namespace dcp::test
