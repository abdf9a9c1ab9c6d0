// Bytes have one owner at a time: allocations of a record that break that.
#pragma once

#include <optional>
#include <vector>

#include "audit/record.hpp"

namespace dcp {

struct AllocationOverlap {
  const audit::Allocation* earlier;  // alive when `later` is born, or born with it
  const audit::Allocation* later;
};

// The one of the earliest birth among allocations that share a byte while both are alive.
std::optional<AllocationOverlap> first_overlap(const std::vector<audit::Allocation>& allocations);

}  // namespace dcp
