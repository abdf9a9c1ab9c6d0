#include "harness/partials_check.hpp"

#include <algorithm>
#include <limits>

#include "reference/combine_check.hpp"

namespace dcp {

namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

CombinedRow combine_row(const PartialsCase& partials, std::int64_t row, int head) {
  Eigen::ArrayXd lse(partials.world_size);
  Eigen::ArrayXXd outs(partials.head_dim, partials.world_size);
  for (int rank = 0; rank < partials.world_size; ++rank) {
    lse[rank] =
        is_masked_by_request(partials, rank, row) ? kEmpty : partials.lse_at(rank, row, head);
    for (int i = 0; i < partials.head_dim; ++i) {
      outs(i, rank) = partials.out_at(rank, row, head, i);
    }
  }
  return combine(lse, outs, partials.lse.base);
}

// Elements [D] of a contiguous [T, num_heads, D] tensor, decoded.
std::vector<float> row_of(const PartialsCase& partials, const std::vector<std::byte>& out,
                          std::size_t index) {
  const auto head_dim = static_cast<std::size_t>(partials.head_dim);
  std::vector<float> row(head_dim);
  for (std::size_t i = 0; i < head_dim; ++i) {
    row[i] = load_element(out.data(), partials.dtype, index * head_dim + i);
  }
  return row;
}

}  // namespace

bool is_masked_by_request(const PartialsCase& partials, int rank, std::int64_t row) {
  if (!partials.query_start_loc) return false;
  const std::vector<std::int32_t>& boundaries = *partials.query_start_loc;
  const auto past = std::upper_bound(boundaries.begin() + 1, boundaries.end(), row);
  if (past == boundaries.end()) return true;
  const auto request = static_cast<std::size_t>(past - boundaries.begin() - 1);
  return partials.ranks[static_cast<std::size_t>(rank)].seq_lens[request] == 0;
}

std::vector<CombinedRow> combine_partials(const PartialsCase& partials) {
  std::vector<CombinedRow> rows;
  for (std::int64_t row = 0; row < partials.num_tokens; ++row) {
    for (int head = 0; head < partials.num_heads; ++head) {
      rows.push_back(combine_row(partials, row, head));
    }
  }
  return rows;
}

CombineTolerance combine_tolerance(const Strategy& strategy, const PartialsCase& partials,
                                   DType reduce_dtype) {
  const bool reduces = strategy.name() == "ag_rs" || strategy.name() == "ag_ar";
  const bool in_terms = reduces && reduce_dtype == partials.dtype;
  return {.rounding = in_terms ? OutputRounding::kTerms : OutputRounding::kOnce,
          .world_size = partials.world_size,
          .dtype = partials.dtype};
}

CombineVerdict check_combined(const PartialsCase& partials, const PartialsResult& result,
                              std::span<const CombinedRow> right,
                              const CombineTolerance& tolerance) {
  CombineVerdict verdict;
  const int num_kept = result.keeps_all_heads ? partials.num_heads : partials.heads_per_rank();
  for (std::int64_t row = 0; row < partials.num_tokens; ++row) {
    for (int head = 0; head < partials.num_heads; ++head) {
      const auto index = static_cast<std::size_t>(row * partials.num_heads + head);
      const WantedRow want = wanted_row(right[index], tolerance);
      for (int rank = 0; rank < partials.world_size; ++rank) {
        const int local_head = result.keeps_all_heads ? head : head - rank * num_kept;
        if (local_head < 0 || local_head >= num_kept) continue;
        const RankCombined& got = result.ranks[static_cast<std::size_t>(rank)];
        const auto local = static_cast<std::size_t>(row * num_kept + local_head);
        const ElementPlace at{.rank = rank, .row = row, .head = head};
        if (!got.out.empty()) {
          compare_elements(verdict.out, at, row_of(partials, got.out, local), want, partials.dtype);
        }
        if (!got.lse.empty()) verdict.lse.add(at, got.lse[local], want.lse, want.lse_tolerance);
      }
    }
  }
  return verdict;
}

}  // namespace dcp
