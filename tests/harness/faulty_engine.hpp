// A combine in plain fp32 loops, written apart from the reference, with a place for each fault.
#pragma once

#include <functional>

#include "tests/harness/dump_case.hpp"

namespace dcp::test {

struct FaultyEngine {
  const DumpCase& dump;
  std::function<bool(int rank, int row)> masks = [this](int rank, int row) {
    return dump.masked_by_request(rank, row);
  };
  std::function<float(int rank, int row, int head)> lse = [this](int rank, int row, int head) {
    return masks(rank, row) ? DumpCase::kEmpty : dump.partial_lse[DumpCase::index(rank, row, head)];
  };
  std::function<float(int rank, int row, int head, int i)> out = [this](int rank, int row, int head,
                                                                        int i) {
    return dump.partial_out[DumpCase::index(rank, row, head) * DumpCase::kDim +
                            static_cast<std::size_t>(i)];
  };
  std::function<float(float)> round_power = [](float power) { return power; };
  std::function<float(float)> round_weight = [](float weight) { return weight; };
  std::string base = dump.base;
  bool divides_by_sum = true;
  bool subtracts_lse = false;  // weights are powers of l_r - lse
  bool skips_zero = true;
  bool takes_nan_as_empty = true;

  float log_base() const { return base == "2" ? std::log(2.0f) : 1.0f; }
  float power(float exponent) const { return std::exp(exponent * log_base()); }

  // Fills out and lse of `result`.
  void run(DumpCase& result) const {
    result.out.clear();
    result.lse.clear();
    for (int row = 0; row < DumpCase::kRows; ++row) {
      for (int head = 0; head < DumpCase::kHeads; ++head) run_row(row, head, result);
    }
  }

 private:
  void run_row(int row, int head, DumpCase& result) const {
    float l[DumpCase::kRanks], weights[DumpCase::kRanks];
    float max = DumpCase::kEmpty;
    for (int rank = 0; rank < DumpCase::kRanks; ++rank) {
      l[rank] = lse(rank, row, head);
      if (!std::isfinite(l[rank])) l[rank] = DumpCase::kEmpty;
      max = std::max(max, l[rank]);
    }
    float sum = 0;
    for (int rank = 0; rank < DumpCase::kRanks; ++rank) {
      weights[rank] = max == DumpCase::kEmpty ? 0 : round_power(power(l[rank] - max));
      sum += weights[rank];
    }
    const float combined =
        max == DumpCase::kEmpty ? DumpCase::kEmpty : max + std::log(sum) / log_base();
    for (int rank = 0; rank < DumpCase::kRanks && sum > 0; ++rank) {
      if (divides_by_sum) weights[rank] /= sum;
      if (subtracts_lse) weights[rank] = power(l[rank] - combined);
      weights[rank] = round_weight(weights[rank]);
    }
    for (int i = 0; i < DumpCase::kDim; ++i) {
      float value = 0;
      for (int rank = 0; rank < DumpCase::kRanks; ++rank) {
        if (weights[rank] == 0 && skips_zero) continue;
        value += weights[rank] * out(rank, row, head, i);
      }
      result.out.push_back(round_to(dump.dtype, value));
    }
    result.lse.push_back(combined);
  }
};

}  // namespace dcp::test
