#include "runtime/cuda/cuda_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/relaxed_capture.hpp"

namespace dcp {

namespace {

std::shared_ptr<std::byte> device_memory(std::size_t size_bytes) {
  const RelaxedCapture relaxed;
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, std::max<std::size_t>(size_bytes, 1)), "cudaMalloc");
  return {static_cast<std::byte*>(data), [](std::byte* memory) { cudaFree(memory); }};
}

std::shared_ptr<std::byte> pinned_memory(std::size_t size_bytes) {
  const RelaxedCapture relaxed;
  void* data = nullptr;
  check_cuda(cudaMallocHost(&data, std::max<std::size_t>(size_bytes, 1)), "cudaMallocHost");
  return {static_cast<std::byte*>(data), [](std::byte* memory) { cudaFreeHost(memory); }};
}

}  // namespace

Buffer CudaMemory::add(std::shared_ptr<std::byte> data, std::string_view name,
                       std::string_view owner, std::size_t size_bytes) {
  std::byte* const bytes = data.get();
  const Allocation& entry = ledger_.add(std::string(name), std::string(owner), bytes, size_bytes);
  blocks_.push_back(
      {.data = std::move(data), .size_bytes = size_bytes, .id = entry.id, .pool = ""});
  return {.data = bytes, .size_bytes = size_bytes, .id = entry.id};
}

Buffer CudaMemory::allocate(std::string_view name, std::string_view owner, std::size_t size_bytes) {
  return add(device_memory(size_bytes), name, owner, size_bytes);
}

std::vector<Buffer> CudaMemory::allocate_together(std::span<const BufferRequest> parts,
                                                  std::string_view owner) {
  std::size_t total = 0;
  for (const BufferRequest& part : parts) total += aligned_part(part.size_bytes);
  const std::shared_ptr<std::byte> memory = device_memory(total);
  std::vector<Buffer> buffers;
  std::size_t offset = 0;
  for (const BufferRequest& part : parts) {
    buffers.push_back(add({memory, memory.get() + offset}, part.name, owner, part.size_bytes));
    offset += aligned_part(part.size_bytes);
  }
  return buffers;
}

Buffer CudaMemory::allocate_pinned(std::string_view name, std::size_t size_bytes) {
  return add(pinned_memory(size_bytes), name, kPinnedOwner, size_bytes);
}

Buffer CudaMemory::allocate_from_pool(std::string_view name, std::string_view pool,
                                      std::size_t size_bytes) {
  for (Block& block : blocks_) {
    if (!block.is_free_in_pool || block.pool != pool || block.size_bytes < size_bytes) continue;
    block.is_free_in_pool = false;
    block.id = ledger_.add(std::string(name), std::string(pool), block.data.get(), size_bytes).id;
    return {.data = block.data.get(), .size_bytes = size_bytes, .id = block.id};
  }
  const Buffer fresh = allocate(name, pool, size_bytes);
  blocks_.back().pool = pool;
  return fresh;
}

void CudaMemory::release(const Buffer& buffer, Ending ending) {
  for (Block& block : blocks_) {
    if (block.id != buffer.id) continue;
    (ending == Ending::kToPool ? block.is_free_in_pool : block.is_released) = true;
  }
  ledger_.mark_freed(buffer.id, ending);
}

void CudaMemory::destroy_pool(std::string_view pool) {
  for (Block& block : blocks_) {
    if (block.pool != pool || block.is_released) continue;
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
    check_cuda(cudaMemset(block.data.get(), 0xFF, block.size_bytes), "cudaMemset");
    quarantine_.push_back(block);
    quarantine_bytes_ += block.size_bytes;
  }
  std::erase_if(blocks_, [](const Block& block) { return block.is_released; });
  while (quarantine_bytes_ > kQuarantineBytes) {
    quarantine_bytes_ -= quarantine_.front().size_bytes;
    quarantine_.pop_front();
  }
}

}  // namespace dcp
