#include "runtime/cuda/cuda_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/relaxed_capture.hpp"

namespace dcp {

CudaMemory::~CudaMemory() {
  std::for_each(blocks_.begin(), blocks_.end(), give_back);
  std::for_each(quarantine_.begin(), quarantine_.end(), give_back);
}

void CudaMemory::give_back(const Block& block) {
  if (block.is_pinned) {
    cudaFreeHost(block.data);
  } else {
    cudaFree(block.data);
  }
}

Buffer CudaMemory::allocate(std::string_view name, std::string_view owner, std::size_t size_bytes) {
  void* data = nullptr;
  {
    const RelaxedCapture relaxed;
    check_cuda(cudaMalloc(&data, std::max<std::size_t>(size_bytes, 1)), "cudaMalloc");
  }
  auto* bytes = static_cast<std::byte*>(data);
  const Allocation& entry = ledger_.add(std::string(name), std::string(owner), bytes, size_bytes);
  blocks_.push_back({.data = bytes, .size_bytes = size_bytes, .id = entry.id, .pool = ""});
  return {.data = bytes, .size_bytes = size_bytes, .id = entry.id};
}

Buffer CudaMemory::allocate_pinned(std::string_view name, std::size_t size_bytes) {
  void* data = nullptr;
  {
    const RelaxedCapture relaxed;
    check_cuda(cudaMallocHost(&data, std::max<std::size_t>(size_bytes, 1)), "cudaMallocHost");
  }
  auto* bytes = static_cast<std::byte*>(data);
  const Allocation& entry =
      ledger_.add(std::string(name), std::string(kPinnedOwner), bytes, size_bytes);
  blocks_.push_back(
      {.data = bytes, .size_bytes = size_bytes, .id = entry.id, .pool = "", .is_pinned = true});
  return {.data = bytes, .size_bytes = size_bytes, .id = entry.id};
}

Buffer CudaMemory::allocate_from_pool(std::string_view name, std::string_view pool,
                                      std::size_t size_bytes) {
  for (Block& block : blocks_) {
    if (!block.is_free_in_pool || block.pool != pool || block.size_bytes < size_bytes) continue;
    block.is_free_in_pool = false;
    block.id = ledger_.add(std::string(name), std::string(pool), block.data, size_bytes).id;
    return {.data = block.data, .size_bytes = size_bytes, .id = block.id};
  }
  const Buffer fresh = allocate(name, pool, size_bytes);
  blocks_.back().pool = pool;
  return fresh;
}

void CudaMemory::release(const Buffer& buffer) {
  Ending ending = Ending::kFreed;
  for (Block& block : blocks_) {
    if (block.id != buffer.id) continue;
    (block.pool.empty() ? block.is_released : block.is_free_in_pool) = true;
    if (!block.pool.empty()) ending = Ending::kToPool;
  }
  ledger_.mark_freed(buffer.id, ending);
}

void CudaMemory::destroy_pool(std::string_view pool) {
  for (Block& block : blocks_) {
    if (block.pool != pool) continue;
    if (!block.is_free_in_pool) ledger_.mark_freed(block.id);
    block.is_released = true;
  }
}

void CudaMemory::free_spare() {
  void* spare = nullptr;
  {
    const RelaxedCapture relaxed;
    check_cuda(cudaMalloc(&spare, 1), "cudaMalloc");
  }
  const cudaError_t error = cudaFree(spare);
  if (error != cudaSuccess) {
    const RelaxedCapture relaxed;
    cudaFree(spare);
  }
  check_cuda(error, "cudaFree");
}

void CudaMemory::collect() {
  constexpr std::size_t kQuarantineBytes = std::size_t{1} << 30;
  for (const Block& block : blocks_) {
    if (!block.is_released) continue;
    if (block.is_pinned) {
      give_back(block);
      continue;
    }
    check_cuda(cudaMemset(block.data, 0xFF, block.size_bytes), "cudaMemset");
    quarantine_.push_back(block);
    quarantine_bytes_ += block.size_bytes;
  }
  std::erase_if(blocks_, [](const Block& block) { return block.is_released; });
  while (quarantine_bytes_ > kQuarantineBytes) {
    quarantine_bytes_ -= quarantine_.front().size_bytes;
    give_back(quarantine_.front());
    quarantine_.pop_front();
  }
}

}  // namespace dcp
