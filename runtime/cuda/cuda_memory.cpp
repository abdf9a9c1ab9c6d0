#include "runtime/cuda/cuda_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

// CUDA refuses allocations while a thread captures, unless it says that it knows what it does: the
// pool's memory is not part of the graph, and outlives it.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

CudaMemory::~CudaMemory() { std::for_each(blocks_.begin(), blocks_.end(), give_back); }

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
  const Allocation& entry =
      ledger_.add(std::string(name), std::string(owner), static_cast<std::byte*>(data), size_bytes);
  blocks_.push_back({static_cast<std::byte*>(data), entry.id, false});
  return {.data = blocks_.back().data, .size_bytes = size_bytes, .id = entry.id};
}

Buffer CudaMemory::allocate_pinned(std::string_view name, std::size_t size_bytes) {
  void* data = nullptr;
  {
    const RelaxedCapture relaxed;
    check_cuda(cudaMallocHost(&data, std::max<std::size_t>(size_bytes, 1)), "cudaMallocHost");
  }
  const Allocation& entry = ledger_.add(std::string(name), std::string(kPinnedOwner),
                                        static_cast<std::byte*>(data), size_bytes);
  blocks_.push_back({static_cast<std::byte*>(data), entry.id, true});
  return {.data = blocks_.back().data, .size_bytes = size_bytes, .id = entry.id};
}

void CudaMemory::release(const Buffer& buffer) {
  const std::string& owner = ledger_.at(buffer.id).owner;
  const bool in_pool = owner != kDeviceOwner && owner != kPinnedOwner;
  for (Block& block : blocks_) {
    if (block.id == buffer.id && !in_pool) block.is_released = true;
  }
  ledger_.mark_freed(buffer.id);
}

void CudaMemory::destroy_pool(std::string_view pool) {
  for (Block& block : blocks_) {
    const Allocation& entry = ledger_.at(block.id);
    if (entry.owner != pool) continue;
    block.is_released = true;
    if (entry.live) ledger_.mark_freed(block.id);
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
  for (const Block& block : blocks_) {
    if (block.is_released) give_back(block);
  }
  std::erase_if(blocks_, [](const Block& block) { return block.is_released; });
}

}  // namespace dcp
