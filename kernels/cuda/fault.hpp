// What a kernel found wrong. A kernel cannot throw: it writes the first fault of its rank into
// memory that the host reads after the step, leaves the row out and goes on.
#pragma once

#include <cstdint>
#include <string>

namespace dcp {

enum class FaultKind : std::uint32_t {
  kNone,
  kSlotPastCache,      // values: token, slot, number of slots
  kBlockOutsideCache,  // request, key, block, number of blocks
  kPagePastTable,      // request, key, page
  kNewTokenPastEnd,    // request, key, row, number of rows
  kMismatch,           // peer, its kind, its count, its dtype; own kind, count, dtype
  kFlagMissing,        // peer, ubatch, slot, wanted epoch, seen epoch
  kPeerMissing,        // peer, collective's number, kind, 0: not begun there, 1: not finished
};

struct Fault {
  std::uint32_t kind;  // FaultKind
  std::int64_t values[7];
};

// The failure's kind in reports ("illegal_address", "mismatch", "deadlock", "wait_timeout") and its
// text.
std::string failure_kind(const Fault& fault);
std::string describe(const Fault& fault);

}  // namespace dcp
