#include "kernels/cuda/fault.hpp"

namespace dcp {

std::string failure_kind(const Fault& fault) {
  switch (static_cast<FaultKind>(fault.kind)) {
    case FaultKind::kMismatch:
      return "mismatch";
    case FaultKind::kPeerMissing:
      return "deadlock";
    case FaultKind::kFlagMissing:
      return "wait_timeout";
    default:
      return "illegal_address";
  }
}

std::string describe(const Fault& fault) {
  const auto value = [&](int i) { return std::to_string(fault.values[i]); };
  switch (static_cast<FaultKind>(fault.kind)) {
    case FaultKind::kNone:
      return "nothing";
    case FaultKind::kSlotPastCache:
      return "kv_append stores token " + value(0) + " into slot " + value(1) + " of a cache of " +
             value(2) + " slots";
    case FaultKind::kBlockOutsideCache:
      return "attention reads local key " + value(1) + " of request " + value(0) + " from block " +
             value(2) + " of a cache of " + value(3) + " blocks";
    case FaultKind::kPagePastTable:
      return "attention reads local key " + value(1) + " of request " + value(0) + " from page " +
             value(2) + ", past the block table";
    case FaultKind::kNewTokenPastEnd:
      return "new_attention reads new token " + value(1) + " of request " + value(0) +
             " from row " + value(2) + " of " + value(3);
    case FaultKind::kFlagMissing:
      return "direct_wait waits in vain: ubatch " + value(1) + ", slot " + value(2) +
             ", wants epoch " + value(3) + ", sees " + value(4) + " of rank " + value(0);
    case FaultKind::kMismatch:
    case FaultKind::kPeerMissing:
      break;  // the communicator has the words
  }
  return "fault " + std::to_string(fault.kind);
}

}  // namespace dcp
