// Arithmetic of decode context parallelism: who owns which token, how many keys a rank has, what a
// query sees, where a token lives in the paged cache. All counts are tokens, 64-bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dcp {

// One rank's share of a sequence under the interleave rule: global token t lives on rank
// (t / interleave) mod world_size.
struct Shard {
  int rank = 0;
  int world_size = 1;
  std::int64_t interleave = 1;
};

// Rank that owns global token `token`.
int owner_of(const Shard& shard, std::int64_t token);

// Number of tokens 0..length-1 that the shard's rank owns:
// length / (N*I) * I + clamp(length mod (N*I) - rank*I, 0, I).
std::int64_t local_length(const Shard& shard, std::int64_t length);

// Index of global token `token` among its owner's tokens, in global order.
std::int64_t local_index(const Shard& shard, std::int64_t token);

// Global token that is the rank's `index`-th; the inverse of local_index.
std::int64_t global_token(const Shard& shard, std::int64_t index);

// Global keys that query `j` (of `query_len`) of a request of global length `length` sees:
// max(0, length - query_len + j + 1).
std::int64_t global_causal_bound(std::int64_t length, std::int64_t query_len, std::int64_t j);

// Slot of local token `index` in the paged cache: block_table[index / block_size] * block_size +
// index mod block_size.
std::int64_t slot_of(std::span<const std::int32_t> block_table, std::int64_t block_size,
                     std::int64_t index);

// Pages that `local_length` tokens take.
std::int64_t num_pages(std::int64_t local_length, std::int64_t block_size);

// Rows after padding to the smallest captured size that is >= rows; nullopt-like -1 where none is.
std::int64_t padded_rows(std::span<const std::int64_t> captured_sizes, std::int64_t rows);

}  // namespace dcp
