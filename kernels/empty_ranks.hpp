// The ranks that have no key for a row, as the bits of a word: bit r is that of rank r, of up to 64
// ranks. Every rank has the words of all rows, so that what the others report for a row needs no
// mask of theirs.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace dcp {

inline constexpr std::uint64_t kEveryRank = ~std::uint64_t{0};  // padding

DCP_HOST_DEVICE inline bool is_empty_on(std::uint64_t empty_ranks, int rank) {
  return (empty_ranks >> rank & 1u) != 0;
}

// The rows that are empty on one rank: their lse must be -inf.
struct EmptyRows {
  const std::uint64_t* empty_ranks;  // [T]; null: no row is empty
  std::int32_t rank;

  DCP_HOST_DEVICE bool has(std::int64_t row) const {
    return empty_ranks != nullptr && is_empty_on(empty_ranks[row], rank);
  }
};

}  // namespace dcp
