// How the rows of a step are cut into ubatches, and what a cut leaves of a batch. A request may be
// cut too: each part sees the keys that its rows see.
#pragma once

#include <cstdint>
#include <vector>

#include "core/scenario.hpp"
#include "engine/batch_layout.hpp"

namespace dcp {

struct Ubatch {
  std::int64_t first_row;
  std::int64_t num_rows;
  friend bool operator==(const Ubatch&, const Ubatch&) = default;
};

// The ubatches of a step of `padded_rows` rows, of which the first `rows` are the batch's: at the
// batch's ubatch_starts, else every floor(padded_rows / ubatches) rows, the last one taking the
// rest. One ubatch where that floor is 0 or where the last ubatch would hold no row of the batch.
// StepError ubatch_out_of_range where the batch's starts do not cut the rows into at most
// graph.ubatches parts.
std::vector<Ubatch> cut_ubatches(const Scenario& scenario, const Batch& batch, std::int64_t rows,
                                 std::int64_t padded_rows);

// The rank's metadata of the rows of one ubatch, counted from its first row; new_first_rows stay
// rows of the step.
RankBatch ubatch_of(RankBatch batch, const Ubatch& ubatch);

}  // namespace dcp
