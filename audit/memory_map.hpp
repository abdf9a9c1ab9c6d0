// Which allocation holds an address, now and at earlier moments.
#pragma once

#include <optional>
#include <vector>

#include "audit/record.hpp"

namespace dcp::audit {

class MemoryMap {
 public:
  explicit MemoryMap(const std::vector<Allocation>& allocations);

  // The allocation that an access captured at `moment` means: the one that held its first byte
  // then; else the last one that had held it; else null. Of several, the latest.
  const Allocation* meant_by(Address address, Moment moment) const;

  // Allocations with a byte in [begin, end), in order of address.
  std::vector<const Allocation*> overlapping(Address begin, Address end) const;

 private:
  const std::vector<Allocation>& allocations_;
  std::vector<std::uint32_t> by_address_;  // ids
  std::uint64_t largest_ = 0;              // bytes of any allocation
};

}  // namespace dcp::audit
