// Memory of one rank on a GPU, behind the same ledger as on the host. What is allocated while the
// rank captures belongs to the capture's pool and lives as long as its graph. Freed memory is
// poisoned with NaN and kept for a while, so that whoever still uses it shows up as wrong values.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/handles.hpp"
#include "core/ledger.hpp"
#include "runtime/runtime.hpp"

namespace dcp {

// Owners of what no capture's pool owns.
inline constexpr std::string_view kDeviceOwner = "device";
inline constexpr std::string_view kPinnedOwner = "pinned";

class CudaMemory {
 public:
  CudaMemory() = default;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  Buffer allocate(std::string_view name, std::string_view owner, std::size_t size_bytes);

  // One piece of memory in which the parts follow each other, as aligned_part() says. Each part is
  // released by itself.
  std::vector<Buffer> allocate_together(std::span<const BufferRequest> parts,
                                        std::string_view owner);
  Buffer allocate_pinned(std::string_view name, std::size_t size_bytes);

  // From a pool: a block that was given back to it and is large enough, else fresh memory.
  Buffer allocate_from_pool(std::string_view name, std::string_view pool, std::size_t size_bytes);

  // Marked freed now. To its pool: the next to ask may have it. Else collect() poisons it.
  void release(const Buffer& buffer, Ending ending);
  void destroy_pool(std::string_view pool);

  // A cudaFree as a program makes it, not relaxed: ApiError where a capture refuses it.
  static void free_spare();

  // Poisons what was released, and frees what was released long ago. Only while nothing of the rank
  // is pending.
  void collect();

  const Ledger& ledger() const { return ledger_; }

 private:
  struct Block {
    std::shared_ptr<std::byte> data;  // gives the memory back with its last part
    std::size_t size_bytes;
    std::uint32_t id;  // of its latest allocation
    std::string pool;  // "": none
    bool is_free_in_pool = false;
    bool is_released = false;
  };

  Buffer add(std::shared_ptr<std::byte> data, std::string_view name, std::string_view owner,
             std::size_t size_bytes);

  Ledger ledger_;
  std::vector<Block> blocks_;
  std::deque<Block> quarantine_;  // poisoned, oldest first
  std::size_t quarantine_bytes_ = 0;
};

}  // namespace dcp
