// Rows of an engine dump in float64, as stored and as a combine should see them.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "harness/engine_dump.hpp"

namespace dcp {

class DumpRows {
 public:
  explicit DumpRows(const EngineDump& dump) : dump_(&dump) {}

  static constexpr double kEmpty = -std::numeric_limits<double>::infinity();

  const PartialsCase& partials() const { return dump_->partials; }
  bool is_masked(int rank, std::int64_t row) const {
    return dump_->masked[static_cast<std::size_t>(rank)][static_cast<std::size_t>(row)];
  }

  // [N], masked where `is_masked(rank)` says so; without it, as stored.
  template <class IsMasked>
  Eigen::ArrayXd lse(std::int64_t row, int head, IsMasked&& masked_on) const {
    Eigen::ArrayXd lse(partials().world_size);
    for (int rank = 0; rank < partials().world_size; ++rank) {
      lse[rank] = masked_on(rank) ? kEmpty : partials().lse_at(rank, row, head);
    }
    return lse;
  }
  Eigen::ArrayXd lse(std::int64_t row, int head) const {
    return lse(row, head, [&](int rank) { return is_masked(rank, row); });
  }

  // [D, N]
  Eigen::ArrayXXd outs(std::int64_t row, int head) const {
    Eigen::ArrayXXd outs(partials().head_dim, partials().world_size);
    for (int rank = 0; rank < partials().world_size; ++rank) {
      for (int i = 0; i < partials().head_dim; ++i) {
        outs(i, rank) = partials().out_at(rank, row, head, i);
      }
    }
    return outs;
  }

 private:
  const EngineDump* dump_;
};

}  // namespace dcp
