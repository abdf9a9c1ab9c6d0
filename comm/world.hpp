// Who runs the ranks. A rank's program only enqueues; drain() runs what all of them enqueued.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/peer_access.hpp"
#include "runtime/interference.hpp"
#include "runtime/runtime.hpp"

namespace dcp {

struct Rank {
  int index;
  Runtime& runtime;
  // One communicator for each ubatch: collectives of ubatches that run at the same time have no
  // order among ranks, so they must not meet in one.
  std::span<Collectives* const> communicators;
  PeerAccess* peers = nullptr;  // null where ranks cannot address each other's memory
};

class World {
 public:
  virtual ~World() = default;
  virtual int world_size() const = 0;

  // Whether this process runs the rank: each_rank() calls the program for those that it runs.
  virtual bool has_rank(int /*rank*/) const { return true; }

  // Whether buffers have bytes: nothing is ever run in a world without.
  virtual bool has_bytes() const { return true; }

  // Whether a rank is gone for good, or a call that waits for it cannot be ended: from then on
  // everything throws the Failure that said so first, and the run is over.
  virtual bool is_over() const { return false; }

  // `of_ranks[r]` is what the process of rank r put there; afterwards it is so in every process.
  virtual void share(std::vector<std::vector<std::byte>>& /*of_ranks*/) {}

  // Memory that every rank may address, one block of the size on each, in the order of the ranks.
  // StepError backend_unavailable where ranks cannot address each other's memory.
  virtual std::vector<Buffer> allocate_symmetric(std::string_view /*name*/,
                                                 std::size_t /*size_bytes*/) {
    throw StepError("backend_unavailable",
                    "the direct exchange needs ranks that can address each other's memory, all in "
                    "one process: comm symmetric");
  }

  // Calls `program` once for each rank, perhaps on a thread of its own: what the calls share is
  // only read. It enqueues and must not wait for another rank. Where it throws for a rank, nothing
  // of this round stays pending on any, and the first exception goes on.
  virtual void each_rank(const std::function<void(Rank&)>& program) = 0;

  // Runs everything that was enqueued. Throws Failure (deadlock, mismatch, ...), after which
  // nothing is pending and the ranks start clean.
  virtual void drain() = 0;

  // Who is asked about every op from here on, null: nobody. StepError backend_unavailable where the
  // backend cannot ask.
  virtual void interfere(Interference* by) {
    static_cast<void>(by);
    throw StepError("backend_unavailable",
                    "this backend cannot leave out or hold back single operations");
  }

  // StepError comm_has_live_graphs while a captured graph uses the communicators.
  virtual void destroy_communicators() = 0;
};

}  // namespace dcp
