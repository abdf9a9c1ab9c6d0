// The combine of one row and head: the ranks' partials, each times its factor (lse_weights.hpp),
// added in fp32 in rank order.
#pragma once

#include "core/dtype.hpp"
#include "core/host_device.hpp"
#include "kernels/lse_weights.hpp"
#include "kernels/strided_row.hpp"

namespace dcp {

// Factors of all ranks into `factors` [world_size], which the team shares; returns their sum.
template <LseBase kBase, class Team, class LseOf>
DCP_HOST_DEVICE LseSum rank_factors(int world_size, const LseOf& lse_of, float* factors) {
  const LseSum total = sum_lses<kBase, Team>(world_size, lse_of);
  for (int rank = Team::lane(); rank < world_size; rank += Team::size()) {
    factors[rank] = rank_factor<kBase>(lse_of(rank), total);
  }
  Team::sync();  // every lane reads every rank's factor next
  return total;
}

// out = sum of factors[r] * rows_of(r)[i] over ranks with a factor; 0 where no rank has one. A rank
// without a factor is not read: its row may hold anything, of any dtype. Eight ranks at a time,
// then the eights: in one chain of additions, 63 small terms beside a large one may all be rounded
// away.
template <class Team, class T, class RowsOf>
DCP_HOST_DEVICE void sum_rank_rows(const float* factors, int world_size, int head_dim,
                                   const RowsOf& rows_of, StridedRow<T> out) {
  constexpr int kElements = 16;  // per lane and pass: keeps the sums in registers
  constexpr int kGroup = 8;
  for (int begin = Team::lane(); begin < head_dim; begin += kElements * Team::size()) {
    const int left = (head_dim - begin + Team::size() - 1) / Team::size();
    const int count = left < kElements ? left : kElements;
    float sums[kElements] = {};
    float group[kElements] = {};
    int num_added = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      const float factor = factors[rank];
      if (factor == 0.0f) continue;
      const auto row = rows_of(rank);
      const bool starts_group = num_added % kGroup == 0;
      for (int i = 0; i < count; ++i) {
        const float term = factor * to_float(row[begin + i * Team::size()]);
        if (starts_group) sums[i] += group[i];
        group[i] = starts_group ? term : group[i] + term;
      }
      ++num_added;
    }
    for (int i = 0; i < count; ++i) {
      // 0 + group would lose the sign of a -0 that the only rank sent.
      const float sum = num_added > kGroup ? sums[i] + group[i] : group[i];
      out[begin + i * Team::size()] = from_float<T>(sum);
    }
  }
}

}  // namespace dcp
