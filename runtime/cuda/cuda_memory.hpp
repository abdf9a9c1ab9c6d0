// Memory of one rank on a GPU, behind the same ledger as on the host. What is allocated while the
// rank captures belongs to the capture's pool and lives as long as its graph.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/handles.hpp"
#include "core/ledger.hpp"

namespace dcp {

// Owners of what no capture's pool owns.
inline constexpr std::string_view kDeviceOwner = "device";
inline constexpr std::string_view kPinnedOwner = "pinned";

class CudaMemory {
 public:
  CudaMemory() = default;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory();

  Buffer allocate(std::string_view name, std::string_view owner, std::size_t size_bytes);
  Buffer allocate_pinned(std::string_view name, std::size_t size_bytes);

  // Marked freed now; given back to CUDA by collect(). What belongs to a pool stays there, since a
  // replay of its graph still writes it, until the pool is destroyed.
  void release(const Buffer& buffer);
  void destroy_pool(std::string_view pool);

  // A cudaFree as a program makes it, not relaxed: ApiError where a capture refuses it.
  static void free_spare();

  // Frees what was released. Only while nothing of the rank is pending.
  void collect();

  const Ledger& ledger() const { return ledger_; }

 private:
  struct Block {
    std::byte* data;
    std::uint32_t id;
    bool is_pinned;
    bool is_released = false;
  };

  static void give_back(const Block& block);

  Ledger ledger_;
  std::vector<Block> blocks_;
};

}  // namespace dcp
