// Memory of one simulated device: real bytes behind a ledger. Fresh and freed bytes are poisoned
// with NaN; freed ranges are quarantined, that is never handed out again, except inside the pool of
// the capture that freed them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/handles.hpp"
#include "core/ledger.hpp"
#include "core/poison.hpp"
#include "runtime/buffer_request.hpp"
#include "runtime/graph_record.hpp"

namespace dcp {

// What is behind a device address: bytes, or nothing. The latter is for plans, whose ops are never
// run: it takes no memory, so that a plan may be of a world that no memory here would hold.
enum class Backing : std::uint8_t { kBytes, kNothing };

class HostMemory {
 public:
  explicit HostMemory(Backing backing = Backing::kBytes) : backing_(backing) {}

  Backing backing() const { return backing_; }

  // Poisons device memory, where it has bytes.
  void poison(std::byte* data, std::size_t size_bytes) const;

  Buffer allocate(std::string_view name, std::string_view owner, std::size_t size_bytes);

  // One block in which the parts follow each other, aligned_part() from one to the next. Each is
  // released by itself.
  std::vector<Buffer> allocate_together(std::span<const BufferRequest> parts,
                                        std::string_view owner);

  // From the pool of a capture in progress: a block that was given back to it, is large enough, and
  // whose last user nodes come before all of `frontiers` (the last nodes of each capturing stream);
  // else fresh memory.
  Buffer allocate_from_pool(std::string_view name, std::size_t size_bytes,
                            const GraphRecord& capture,
                            const std::vector<std::vector<int>>& frontiers);

  // Marks the buffer freed in the ledger; the caller poisons it when its last user is done.
  void release(const Buffer& buffer);

  // Other memory behind the same address: the bytes are gone, the ledger has a new allocation.
  Buffer remap(const Buffer& buffer);

  // Parts of [data, data + size) that were given back for good. Whoever uses them finds what a
  // later owner may have left there.
  struct Range {
    std::byte* data;
    std::size_t size_bytes;
  };
  std::vector<Range> freed_parts(const void* data, std::size_t size_bytes) const;

  // Grows whenever more is given back.
  std::size_t num_freed() const { return freed_.size(); }
  void release_to_pool(const Buffer& buffer, const GraphRecord& capture);

  // Marks everything that the pool owns as freed and poisons it.
  void destroy_pool(std::string_view pool);

  const Ledger& ledger() const { return ledger_; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> storage;
    std::byte* data = nullptr;  // 256-byte aligned
    std::size_t size_bytes = 0;
    std::string owner;
    bool free_in_pool = false;
  };

  std::byte* add_block(std::string_view owner, std::size_t size_bytes);
  Buffer record(std::string_view name, std::string_view owner, const Range& range);
  Block& block_of(const std::byte* data);
  void back(Block& block);

  Backing backing_;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 44;  // of Backing::kNothing
  Ledger ledger_;
  std::vector<Block> blocks_;
  std::map<const std::byte*, std::size_t> freed_;  // address -> bytes
};

}  // namespace dcp
