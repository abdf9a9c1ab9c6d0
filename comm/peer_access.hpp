// What an exchange by loads and stores needs of the machine, beside addresses: one for each rank.
#pragma once

#include "core/handles.hpp"
#include "kernels/direct_wait.hpp"
#include "kernels/remote_stores.hpp"

namespace dcp {

class PeerAccess {
 public:
  virtual ~PeerAccess() = default;

  // Null where the hardware makes the stores.
  virtual RemoteStores* stores() = 0;

  virtual WaitBound wait_bound() = 0;

  // Between which threads the ranks' flags order stores.
  virtual FlagScope flag_scope() { return FlagScope::kSystem; }

  // Whether an op may both store to the peers and wait for theirs: what before_wait() does cannot
  // come between.
  virtual bool may_wait_at_once(bool /*is_captured*/) { return true; }

  // Called before a wait of the ubatch is enqueued in the stream, by all ranks in the same order.
  // Where a kernel that waits could keep the others' work from running, the streams meet here.
  virtual void before_wait(int ubatch, Stream stream) = 0;
};

}  // namespace dcp
