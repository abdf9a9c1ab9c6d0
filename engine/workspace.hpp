// Scratch that the steps of one ubatch on one rank share: one block, in which each step lays its
// workspace buffers out one after the other.
#pragma once

#include <cstddef>

#include "runtime/runtime.hpp"
#include "strategies/buffers.hpp"

namespace dcp {

// What a step asks the workspace for. `asked_bytes` decides whether a workspace is large enough; it
// differs from `used_bytes` only where a scenario overrides it, and a block has room for both.
struct WorkspaceNeed {
  std::size_t asked_bytes = 0;
  std::size_t used_bytes = 0;
};

// Bytes that the workspace buffers of the plan use, each 256-byte aligned.
std::size_t workspace_bytes(const BufferPlan& plan);

// The plan's workspace buffers inside the block, and the block itself as "workspace".
BufferSet carve_workspace(const Buffer& block, const BufferPlan& plan);

class Workspace {
 public:
  bool holds(const WorkspaceNeed& need) const {
    return need.asked_bytes <= has_.asked_bytes && need.used_bytes <= has_.used_bytes;
  }
  bool is_empty() const { return block_.data == nullptr; }
  const WorkspaceNeed& has() const { return has_; }
  const Buffer& block() const { return block_; }

  // Gives the block back, if there is one, and takes exactly what is needed.
  void take(Runtime& runtime, const WorkspaceNeed& need);

  // As of now: the block was given back, or replaced by another of the same size.
  void forget() { *this = {}; }
  void replace(const Buffer& block) { block_ = block; }

 private:
  Buffer block_;
  WorkspaceNeed has_;
};

}  // namespace dcp
