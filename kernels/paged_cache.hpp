// A paged cache as an attention op reads it: local key k of a request is row
// block_table[request][k / block_size] * block_size + k % block_size.
#pragma once

#include <cstdint>
#include <string_view>

namespace dcp {

struct PagedCache {
  std::string_view op;              // who reads, for messages
  const std::int32_t* block_table;  // [num_requests, block_table_stride]
  std::int64_t num_blocks;
  std::int32_t num_requests;
  std::int32_t block_table_stride;
  std::int32_t block_size;
};

// Throws Failure "illegal_address" where the key's block is outside the cache, or its entry outside
// the block table.
std::int64_t paged_row(const PagedCache& cache, std::int32_t request, std::int64_t key);

}  // namespace dcp
