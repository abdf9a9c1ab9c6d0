// What a batch means: its rows, its requests, and each rank's share of the keys. Everything that a
// rank's metadata buffers hold is computed here, on the host, before anything is launched.
#pragma once

#include <cstdint>
#include <vector>

#include "core/scenario.hpp"
#include "core/sharding.hpp"

namespace dcp {

// The checked form of a batch: boundaries filled in, lengths global.
struct BatchLayout {
  std::vector<std::int64_t> seq_lens;                     // [R]
  std::vector<std::int64_t> query_start_loc;              // [R+1]
  std::int64_t rows = 0;                                  // before padding
  std::vector<std::vector<std::int64_t>> local_seq_lens;  // [N][R]
  bool contiguous = false;    // shards are hand-given contiguous ranges, not interleaved
  bool context_only = false;  // ranks attend to the keys before this step's new tokens only

  std::int64_t num_requests() const { return static_cast<std::int64_t>(seq_lens.size()); }
  std::int64_t query_len(std::int64_t request) const {
    return query_start_loc[request + 1] - query_start_loc[request];
  }

  // Global keys 0 .. n-1 that query `j` of a request attends to through its ranks: those up to
  // itself or, where new tokens are attended to apart, those before the request's first.
  std::int64_t sharded_bound(std::int64_t request, std::int64_t j) const {
    return global_causal_bound(seq_lens[request], query_len(request), context_only ? -1 : j);
  }
};

// One key of a request on a rank: where it stands in the sequence and among the rank's own keys.
struct LocalKey {
  std::int64_t token;  // global
  std::int64_t index;  // local
};

// Metadata of one rank, without the tails that fill the buffers.
struct RankBatch {
  std::vector<std::int32_t> query_start_loc;           // [R+1]
  std::vector<std::int32_t> seq_lens;                  // [R] local
  std::vector<std::int32_t> causal_bounds;             // [rows] of sharded_bound
  std::vector<std::uint64_t> empty_ranks;              // [rows] ranks that have no key for the row
  std::vector<std::vector<std::int32_t>> block_table;  // [R][pages]
  std::vector<std::int64_t> slot_mapping;              // [rows] -1: not this rank's token
  std::vector<std::int32_t> new_seq_lens;              // [R] new tokens; 0: a padding request
  std::vector<std::int32_t> new_bounds;                // [rows] new tokens that the row sees
  std::vector<std::int32_t> new_first_rows;            // [R] the step's row of the first new token
};

// Checks the batch. StepError: qsl_without_seq_lens, qsl_not_monotone, negative_local_len,
// local_lens_mismatch,
// seq_len_below_query_len, capacity (rows that cannot hold the query tokens).
BatchLayout make_batch_layout(const Scenario& scenario, const Batch& batch);

// The batch that a size is captured with when none is named: one-token requests of length 1.
Batch make_capture_batch(std::int64_t rows);

// Global keys 0..length-1 of the request that the rank owns, in global order, as local indices.
std::int64_t local_bound(const BatchLayout& layout, const Shard& shard, std::int64_t request,
                         std::int64_t length);

// The rank's keys of a request among global tokens begin..end-1.
std::vector<LocalKey> local_keys(const BatchLayout& layout, const Shard& shard,
                                 std::int64_t request, std::int64_t begin, std::int64_t end);

// Rank that owns a token of a request.
int owner_of_token(const BatchLayout& layout, const Shard& shard, std::int64_t request,
                   std::int64_t token);

// Pages of the paged cache are dealt out of order, from page 1: page 0 is never used, so that a
// zeroed block table points at nothing. StepError capacity where `num_blocks` do not suffice.
RankBatch make_rank_batch(const BatchLayout& layout, const Shard& shard, std::int64_t block_size,
                          std::int64_t num_blocks);

// Pages that the rank needs for the batch, page 0 included.
std::int64_t pages_needed(const BatchLayout& layout, int rank, std::int64_t block_size);

}  // namespace dcp
