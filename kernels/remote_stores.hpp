// Stores to the memory of other ranks, as the host's bodies of ops make them: what a memory model
// allows may happen to a store before its target sees it. On a GPU the instructions do this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dcp {

// Between which ranks.
struct StoreRoute {
  int from;
  int to;
};

class RemoteStores {
 public:
  virtual ~RemoteStores() = default;

  // `bytes` are copied now and reach `at` some time later, in any order with other addresses.
  virtual void store(StoreRoute route, void* at, const void* bytes, std::size_t size_bytes) = 0;

  // As above, of bytes that the target polls: they are in effect when they get there, all at once.
  virtual void store_polled(StoreRoute route, void* at, const void* bytes,
                            std::size_t size_bytes) = 0;

  // Reaches `at` after everything that the rank stored before.
  virtual void store_release(StoreRoute route, std::uint32_t* at, std::uint32_t value) = 0;

  // The rank has loaded flags: what it loads from here on is at least as new as they say.
  virtual void acquire(int rank) = 0;
};

// A store of an op's host body. `stores` null: it is there at once, as is one to the rank itself.
inline void store_at(RemoteStores* stores, StoreRoute route, void* at, const void* bytes,
                     std::size_t size_bytes) {
  if (size_bytes == 0) return;
  if (stores == nullptr || route.from == route.to) {
    std::memcpy(at, bytes, size_bytes);
  } else {
    stores->store(route, at, bytes, size_bytes);
  }
}

}  // namespace dcp
