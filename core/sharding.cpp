#include "core/sharding.hpp"

#include <algorithm>
#include <cassert>

namespace dcp {

int owner_of(const Shard& shard, std::int64_t token) {
  return static_cast<int>(token / shard.interleave % shard.world_size);
}

std::int64_t local_length(const Shard& shard, std::int64_t length) {
  const std::int64_t stripe = shard.world_size * shard.interleave;  // one turn over all ranks
  return length / stripe * shard.interleave +
         std::clamp<std::int64_t>(length % stripe - shard.rank * shard.interleave, 0,
                                  shard.interleave);
}

std::int64_t local_index(const Shard& shard, std::int64_t token) {
  const std::int64_t stripe = shard.world_size * shard.interleave;
  return token / stripe * shard.interleave + token % shard.interleave;
}

std::int64_t global_token(const Shard& shard, std::int64_t index) {
  const std::int64_t stripe = shard.world_size * shard.interleave;
  return index / shard.interleave * stripe + shard.rank * shard.interleave +
         index % shard.interleave;
}

std::int64_t global_causal_bound(std::int64_t length, std::int64_t query_len, std::int64_t j) {
  return std::max<std::int64_t>(0, length - query_len + j + 1);
}

std::int64_t slot_of(std::span<const std::int32_t> block_table, std::int64_t block_size,
                     std::int64_t index) {
  const std::int64_t page = index / block_size;
  assert(page < static_cast<std::int64_t>(block_table.size()));
  return block_table[static_cast<std::size_t>(page)] * block_size + index % block_size;
}

std::int64_t num_pages(std::int64_t local_length, std::int64_t block_size) {
  return (local_length + block_size - 1) / block_size;
}

std::int64_t padded_rows(std::span<const std::int64_t> captured_sizes, std::int64_t rows) {
  std::int64_t smallest = -1;
  for (const std::int64_t size : captured_sizes) {
    if (size >= rows && (smallest < 0 || size < smallest)) smallest = size;
  }
  return smallest;
}

}  // namespace dcp
