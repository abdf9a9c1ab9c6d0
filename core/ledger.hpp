// The allocation ledger of one rank: who owns which bytes, since when, and which of them are gone.
// Entries are never forgotten, so that a pointer into freed memory still has a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dcp {

// How an allocation ended.
enum class Ending : std::uint8_t {
  kLive,
  kFreed,     // given back for good
  kToPool,    // given back to the pool of a capture, which hands the bytes out again
  kRemapped,  // other memory lies behind its address
};

struct Allocation {
  std::uint32_t id = 0;
  std::string name;
  std::string owner;         // "device", "pinned", or the pool of a capture
  std::uint32_t generation;  // 1 for the first allocation of this name and owner, then 2, ...
  const std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  bool live = true;
  std::uint64_t born = 0;  // Ledger::now() when it was added, and when it ended
  std::uint64_t died = 0;  // 0: it is live
  Ending ending = Ending::kLive;

  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= data && byte < data + size_bytes;
  }
};

class Ledger {
 public:
  const Allocation& add(std::string name, std::string owner, const std::byte* data,
                        std::size_t size_bytes);
  void mark_freed(std::uint32_t id, Ending ending = Ending::kFreed);

  // Number of allocations that were added or ended: moves on with every change.
  std::uint64_t now() const { return now_; }

  const Allocation& at(std::uint32_t id) const { return allocations_.at(id); }
  const std::vector<Allocation>& all() const { return allocations_; }

  // The live allocation that holds the address, else the latest freed one, else null.
  const Allocation* find(const void* address) const;

 private:
  std::vector<Allocation> allocations_;  // index = id
  std::uint64_t now_ = 0;
};

}  // namespace dcp
