#include "engine/batch_layout.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "kernels/empty_ranks.hpp"

namespace dcp {

namespace {

std::string at_index(std::size_t index) { return " at index " + std::to_string(index); }

void fill_boundaries(const Batch& batch, BatchLayout& layout) {
  const std::size_t num_requests = batch.seq_lens.size();
  if (!batch.query_start_loc) {
    layout.query_start_loc.resize(num_requests + 1);
    std::iota(layout.query_start_loc.begin(), layout.query_start_loc.end(), 0);
    return;
  }
  const auto& boundaries = *batch.query_start_loc;
  if (boundaries.size() != num_requests + 1) {
    throw StepError("qsl_without_seq_lens",
                    "query_start_loc must hold one boundary more than there are requests: " +
                        std::to_string(num_requests + 1) + ", not " +
                        std::to_string(boundaries.size()));
  }
  if (boundaries[0] != 0) {
    throw StepError("qsl_not_monotone",
                    "query_start_loc must start at 0, not at " + std::to_string(boundaries[0]));
  }
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] >= boundaries[i - 1]) continue;
    throw StepError("qsl_not_monotone", "query_start_loc falls from " +
                                            std::to_string(boundaries[i - 1]) + " to " +
                                            std::to_string(boundaries[i]) + at_index(i));
  }
  layout.query_start_loc = boundaries;
}

void check_lengths(const BatchLayout& layout) {
  for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
    const std::int64_t length = layout.seq_lens[r];
    const std::string request = "request " + std::to_string(r);
    if (length < 0) {
      throw StepError("negative_local_len", request + " has length " + std::to_string(length));
    }
    if (length > std::numeric_limits<std::int32_t>::max()) {
      throw StepError("capacity", request + " has length " + std::to_string(length) +
                                      ", metadata holds 32-bit lengths");
    }
    if (length > 0 && length < layout.query_len(r)) {
      throw StepError("seq_len_below_query_len", request + " has length " + std::to_string(length) +
                                                     " but " + std::to_string(layout.query_len(r)) +
                                                     " query tokens");
    }
  }
}

void fill_local_lengths(const Scenario& scenario, const Batch& batch, BatchLayout& layout) {
  layout.contiguous = batch.local_seq_lens.has_value();
  if (!layout.contiguous) {
    for (int rank = 0; rank < scenario.world_size; ++rank) {
      const Shard shard{rank, scenario.world_size, scenario.interleave};
      auto& lengths = layout.local_seq_lens.emplace_back();
      for (const std::int64_t length : layout.seq_lens) {
        lengths.push_back(local_length(shard, length));
      }
    }
    return;
  }
  layout.local_seq_lens = *batch.local_seq_lens;
  for (const auto& lengths : layout.local_seq_lens) {
    if (lengths.size() == layout.seq_lens.size()) continue;
    throw StepError("local_lens_mismatch", "local_seq_lens must hold one length per request: " +
                                               std::to_string(layout.seq_lens.size()) + ", not " +
                                               std::to_string(lengths.size()));
  }
  for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
    std::int64_t sum = 0;
    for (std::size_t rank = 0; rank < layout.local_seq_lens.size(); ++rank) {
      const std::int64_t length = layout.local_seq_lens[rank].at(static_cast<std::size_t>(r));
      if (length < 0) {
        throw StepError("negative_local_len", "rank " + std::to_string(rank) + " has length " +
                                                  std::to_string(length) + " of request " +
                                                  std::to_string(r));
      }
      sum += length;
    }
    if (sum != layout.seq_lens[r]) {
      throw StepError("local_lens_mismatch", "local_seq_lens of request " + std::to_string(r) +
                                                 " sum to " + std::to_string(sum) + ", not to " +
                                                 std::to_string(layout.seq_lens[r]));
    }
  }
}

// First global token of a hand-given contiguous shard.
std::int64_t shard_begin(const BatchLayout& layout, int rank, std::int64_t request) {
  std::int64_t begin = 0;
  for (int r = 0; r < rank; ++r) begin += layout.local_seq_lens[r][request];
  return begin;
}

}  // namespace

BatchLayout make_batch_layout(const Scenario& scenario, const Batch& batch) {
  BatchLayout layout;
  layout.seq_lens = batch.seq_lens;
  layout.context_only = scenario.attention_split == AttentionSplit::kContextThenNew;
  fill_boundaries(batch, layout);
  check_lengths(layout);
  fill_local_lengths(scenario, batch, layout);
  const std::int64_t num_query_tokens = layout.query_start_loc.back();
  layout.rows = batch.rows.value_or(num_query_tokens);
  if (layout.rows < num_query_tokens) {
    throw StepError("capacity", std::to_string(layout.rows) + " rows cannot hold " +
                                    std::to_string(num_query_tokens) + " query tokens");
  }
  return layout;
}

Batch make_capture_batch(std::int64_t rows) {
  Batch batch;
  batch.name = "capture of " + std::to_string(rows) + " rows";
  batch.seq_lens.assign(static_cast<std::size_t>(rows), 1);
  return batch;
}

std::int64_t local_bound(const BatchLayout& layout, const Shard& shard, std::int64_t request,
                         std::int64_t length) {
  if (!layout.contiguous) return local_length(shard, length);
  return std::clamp<std::int64_t>(length - shard_begin(layout, shard.rank, request), 0,
                                  layout.local_seq_lens[shard.rank][request]);
}

std::vector<LocalKey> local_keys(const BatchLayout& layout, const Shard& shard,
                                 std::int64_t request, std::int64_t begin, std::int64_t end) {
  std::vector<LocalKey> keys;
  const std::int64_t first = local_bound(layout, shard, request, begin);
  const std::int64_t last = local_bound(layout, shard, request, end);
  for (std::int64_t index = first; index < last; ++index) {
    const std::int64_t token = layout.contiguous ? shard_begin(layout, shard.rank, request) + index
                                                 : global_token(shard, index);
    keys.push_back({.token = token, .index = index});
  }
  return keys;
}

int owner_of_token(const BatchLayout& layout, const Shard& shard, std::int64_t request,
                   std::int64_t token) {
  if (!layout.contiguous) return owner_of(shard, token);
  int rank = 0;
  std::int64_t end = layout.local_seq_lens[0][request];
  while (token >= end) end += layout.local_seq_lens[++rank][request];
  return rank;
}

std::int64_t pages_needed(const BatchLayout& layout, int rank, std::int64_t block_size) {
  std::int64_t pages = 1;
  for (const std::int64_t length : layout.local_seq_lens[rank]) {
    pages += num_pages(length, block_size);
  }
  return pages;
}

namespace {

// The pages 1..num_blocks-1 in an order that is not ascending: odd ones first, then even ones
// downward.
std::int32_t page_at(std::int64_t index, std::int64_t num_blocks) {
  const std::int64_t num_odd = num_blocks / 2;
  const std::int64_t largest_even = (num_blocks - 1) / 2 * 2;
  return static_cast<std::int32_t>(index < num_odd ? 2 * index + 1
                                                   : largest_even - 2 * (index - num_odd));
}

// The ranks that have none of the request's keys 0 .. bound-1.
std::uint64_t ranks_without_keys(const BatchLayout& layout, const Shard& shard,
                                 std::int64_t request, std::int64_t bound) {
  std::uint64_t ranks = 0;
  for (int rank = 0; rank < shard.world_size; ++rank) {
    const Shard other{rank, shard.world_size, shard.interleave};
    const bool is_empty = local_bound(layout, other, request, bound) == 0;
    ranks |= std::uint64_t{is_empty} << rank;
  }
  return ranks;
}

void fill_rows(const BatchLayout& layout, const Shard& shard, std::int64_t block_size,
               RankBatch& batch) {
  batch.causal_bounds.assign(static_cast<std::size_t>(layout.rows), 0);
  batch.empty_ranks.assign(static_cast<std::size_t>(layout.rows), kEveryRank);
  batch.slot_mapping.assign(static_cast<std::size_t>(layout.rows), -1);
  batch.new_bounds.assign(static_cast<std::size_t>(layout.rows), 0);
  batch.new_seq_lens.reserve(layout.seq_lens.size());
  batch.new_first_rows.reserve(layout.seq_lens.size());
  for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
    const std::int64_t query_len = layout.query_len(r);
    const bool is_padding = layout.seq_lens[r] == 0;
    batch.new_seq_lens.push_back(is_padding ? 0 : static_cast<std::int32_t>(query_len));
    batch.new_first_rows.push_back(static_cast<std::int32_t>(layout.query_start_loc[r]));
    std::uint64_t empty_ranks = kEveryRank;
    for (std::int64_t j = 0; j < query_len; ++j) {
      const std::int64_t row = layout.query_start_loc[r] + j;
      const std::int64_t bound = layout.sharded_bound(r, j);
      batch.causal_bounds[row] = static_cast<std::int32_t>(local_bound(layout, shard, r, bound));
      // Bounds only grow: once every rank has a key, so it is for the request's later rows.
      if (empty_ranks != 0) empty_ranks = ranks_without_keys(layout, shard, r, bound);
      batch.empty_ranks[row] = empty_ranks;
      if (is_padding) continue;
      batch.new_bounds[row] = static_cast<std::int32_t>(j + 1);
      const std::int64_t token = layout.seq_lens[r] - query_len + j;
      if (owner_of_token(layout, shard, r, token) != shard.rank) continue;
      batch.slot_mapping[row] =
          slot_of(batch.block_table[r], block_size, local_bound(layout, shard, r, token));
    }
  }
}

}  // namespace

RankBatch make_rank_batch(const BatchLayout& layout, const Shard& shard, std::int64_t block_size,
                          std::int64_t num_blocks) {
  const std::int64_t needed = pages_needed(layout, shard.rank, block_size);
  if (needed > num_blocks) {
    throw StepError("capacity", "rank " + std::to_string(shard.rank) + " needs " +
                                    std::to_string(needed) +
                                    " pages of KV cache, page 0 included," + " and has " +
                                    std::to_string(num_blocks));
  }
  const auto& lengths = layout.local_seq_lens[shard.rank];
  RankBatch batch;
  batch.query_start_loc.assign(layout.query_start_loc.begin(), layout.query_start_loc.end());
  batch.seq_lens.assign(lengths.begin(), lengths.end());
  batch.block_table.resize(lengths.size());
  std::int64_t num_dealt = 0;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    batch.block_table[r].resize(static_cast<std::size_t>(num_pages(lengths[r], block_size)));
    for (std::int32_t& page : batch.block_table[r]) page = page_at(num_dealt++, num_blocks);
  }
  fill_rows(layout, shard, block_size, batch);
  return batch;
}

}  // namespace dcp
