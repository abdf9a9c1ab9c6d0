// Who owns which token and what a row sees, listed token by token from the rules: the closed forms
// of core/sharding.hpp are checked against this, so they are not used here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/scenario.hpp"

namespace dcp {

// What one row attends to: global keys 0 .. num_keys-1 of its request.
struct RowKeys {
  int request = -1;  // -1: a padding row
  std::int64_t num_keys = 0;
  std::int64_t num_context = 0;  // those of them that stand before the step's new tokens
};

// The batch's boundaries; one row per request where it gives none. [R+1]
std::vector<std::int64_t> row_boundaries(const Batch& batch);

// For each of `num_rows` rows: its request is the number of boundaries query_start_loc[1..R] that
// are <= row, and query j of q of a request of length L sees max(0, L - q + j + 1) keys, of which
// max(0, L - q) are its context.
std::vector<RowKeys> list_row_keys(const Batch& batch, std::int64_t num_rows);

// Rank of each token of a request: token t lives on rank (t / I) mod N, or, where the batch gives
// local lengths, the ranks take contiguous ranges in order; -1 past the last of these. [L]
std::vector<int> list_owners(const Scenario& scenario, const Batch& batch, int request);

// For each rank, its tokens in global order. [N][local length]
std::vector<std::vector<std::ptrdiff_t>> list_tokens(const std::vector<int>& owners,
                                                     int world_size);

}  // namespace dcp
