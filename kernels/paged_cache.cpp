#include "kernels/paged_cache.hpp"

#include <string>

#include "core/error.hpp"

namespace dcp {

std::int64_t paged_row(const PagedCache& cache, std::int32_t request, std::int64_t key) {
  const std::int64_t page = key / cache.block_size;
  const std::int64_t entry = std::int64_t{request} * cache.block_table_stride + page;
  const bool is_in_table = entry < std::int64_t{cache.num_requests} * cache.block_table_stride;
  const std::int64_t block = is_in_table ? cache.block_table[entry] : -1;
  if (block < 0 || block >= cache.num_blocks) {
    throw Failure("illegal_address", -1,
                  std::string(cache.op) + " reads local key " + std::to_string(key) +
                      " of request " + std::to_string(request) + " from " +
                      (is_in_table ? "block " + std::to_string(block) + " of a cache of " +
                                         std::to_string(cache.num_blocks) + " blocks"
                                   : "page " + std::to_string(page) + ", past the block table"));
  }
  return block * cache.block_size + key % cache.block_size;
}

}  // namespace dcp
