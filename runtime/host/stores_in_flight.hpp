// Stores of ranks to each other's memory that have been made and are not in effect yet.
//
// A store gets to its target any time after it was made, also after later ones; there a load may
// find the old value until the target's rank acquires, or for some time more. The memory model
// orders: stores of one rank to one address; a flag behind everything that its rank stored before
// (release); loads behind the acquire of a flag, with all that got there before the flag. Flags are
// polled, as is whatever says itself that it is there: they are in effect when they get there.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "kernels/remote_stores.hpp"
#include "runtime/host/arrivals.hpp"

namespace dcp {

// What the machine keeps of the model. A protocol needs both: without one it must be seen to break.
struct MemoryOrder {
  bool release = true;
  bool acquire = true;
};

class StoresInFlight final : public RemoteStores, public Arrivals {
 public:
  explicit StoresInFlight(int world_size);

  void store(StoreRoute route, void* at, const void* bytes, std::size_t size_bytes) override;
  void store_polled(StoreRoute route, void* at, const void* bytes, std::size_t size_bytes) override;
  void store_release(StoreRoute route, std::uint32_t* at, std::uint32_t value) override;
  void acquire(int rank) override;

  std::size_t count() const override { return count_; }
  Arrival at(std::size_t i) const override;
  void happen(std::size_t i) override;
  void forget() override;

  // While nothing is in flight.
  void keep(const MemoryOrder& order) { order_ = order; }

 private:
  enum class Kind { kRows, kPolled, kFlag };
  struct Store {
    std::int64_t number;  // of the sender's stores
    std::byte* at;
    std::vector<std::byte> bytes;
    Kind kind;
    bool is_there = false;  // at the target, but not in effect
  };
  struct Candidate {
    int to;
    std::size_t index;  // in Sender::to[to]
  };
  struct Sender {
    std::vector<std::vector<Store>> to;  // by target, in the order in which they were made
    std::set<std::int64_t> under_way;    // numbers of stores that are not there, but for flags
    std::int64_t num_made = 0;
    std::vector<Candidate> next;  // what may happen next
  };

  static bool overlap(const Store& a, const Store& b);
  void add(StoreRoute route, void* at, const void* bytes, std::size_t size_bytes, Kind kind);
  bool may_happen(const Sender& sender, const Candidate& candidate) const;
  void find_next(Sender& sender);
  std::pair<int, Candidate> find(std::size_t i) const;

  MemoryOrder order_;
  std::vector<Sender> senders_;
  std::size_t count_ = 0;  // of all candidates
};

}  // namespace dcp
