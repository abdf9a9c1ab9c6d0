#include "engine/workspace.hpp"

#include <algorithm>

namespace dcp {

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::size_t workspace_bytes(const BufferPlan& plan) {
  std::size_t sum = 0;
  for (const BufferSpec& spec : plan.specs()) {
    if (spec.lifetime == Lifetime::kWorkspace) sum += aligned(spec.size_bytes);
  }
  return sum;
}

BufferSet carve_workspace(const Buffer& block, const BufferPlan& plan) {
  BufferSet buffers;
  std::size_t used = 0;
  for (const BufferSpec& spec : plan.specs()) {
    if (spec.lifetime != Lifetime::kWorkspace) continue;
    buffers.add(spec.name,
                {.data = block.data + used, .size_bytes = spec.size_bytes, .id = block.id});
    used += aligned(spec.size_bytes);
  }
  buffers.add("workspace", block);
  return buffers;
}

void Workspace::take(Runtime& runtime, const WorkspaceNeed& need) {
  if (!is_empty()) runtime.free(block_);
  block_ = runtime.allocate("workspace", std::max(need.asked_bytes, need.used_bytes));
  has_ = need;
}

}  // namespace dcp
