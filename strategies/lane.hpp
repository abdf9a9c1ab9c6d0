// Where one ubatch of a rank's step is enqueued: its compute stream, and the stream and
// communicator of its collectives. A collective is forked off the compute stream by an event and
// joined back by another, as an asynchronous collective call of a serving engine is.
#pragma once

#include <cstdint>

#include "comm/world.hpp"

namespace dcp {

// One of the orders that a lane gives, for those who leave it out on purpose.
enum class LaneEdge : std::uint8_t {
  kNone,
  kFork,    // a collective after the compute stream's work before it
  kJoin,    // the compute stream's later work after the collective
  kAppend,  // a ubatch's kv_append after that of the one before
};

struct Lane {
  Rank& rank;
  Collectives& collectives;
  Stream compute;
  Stream comm;  // equal to `compute`: collectives run in line
  Event forked;
  Event joined;
  Event appended{};                // after this ubatch's kv_append of a layer
  const Lane* previous = nullptr;  // lane of the ubatch before; null for the first
  LaneEdge dropped = LaneEdge::kNone;
  int ubatch = 0;  // that the exchanges are of

  template <Op O>
  void enqueue(const typename O::Params& params) const {
    dcp::enqueue<O>(rank.runtime, compute, params);
  }

  void collective(CollectiveKind kind, const Message& message) const {
    if (comm == compute) {
      collectives.enqueue(compute, kind, message);
      return;
    }
    if (dropped != LaneEdge::kFork) {
      rank.runtime.record(forked, compute);
      rank.runtime.wait(comm, forked);
    }
    collectives.enqueue(comm, kind, message);
    if (dropped == LaneEdge::kJoin) return;
    rank.runtime.record(joined, comm);
    rank.runtime.wait(compute, joined);
  }
};

}  // namespace dcp
