// The check of kv_gather, bit for bit: what every rank must hold of the chunks of all ranks, listed
// from the rules token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data.hpp"
#include "core/scenario.hpp"
#include "reference/compare.hpp"

namespace dcp {

// Rows of a step that one ubatch has.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class KvGatherReference {
 public:
  // `scenario` has a kv_gather and must outlive this; the batch must be legal.
  KvGatherReference(const Scenario& scenario, const Batch& batch,
                    std::span<const RowRange> ubatches);

  // `of_ranks[r]`: what rank r holds, ubatch after ubatch [N * T, Dkv]; nothing where it did not
  // take part. Row and element of a place are those of all ubatches' rows. Throws
  // std::invalid_argument where a rank holds another number of bytes.
  Comparison check(int layer, std::span<const std::vector<std::byte>> of_ranks) const;

  // The right bytes, for all ranks the same.
  std::vector<std::byte> expected(int layer) const;

 private:
  // One row; token < 0: no token had its place, and what lies there is poison.
  struct Row {
    int request = 0;
    std::int64_t token = -1;
    int owner = 0;
  };

  const KvGatherSpec& spec_;
  InputData data_;
  std::size_t rows_per_rank_;
  std::vector<Row> rows_;  // [ubatches][N][T]
};

}  // namespace dcp
