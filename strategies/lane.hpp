// Where one rank's step is enqueued: its compute stream, and the stream that its collectives run
// on. A collective is forked off the compute stream by an event and joined back by another, as an
// asynchronous collective call of a serving engine is.
#pragma once

#include "comm/world.hpp"

namespace dcp {

struct Lane {
  Rank& rank;
  Stream compute;
  Stream comm;  // equal to `compute`: collectives run in line
  Event forked;
  Event joined;

  template <Op O>
  void enqueue(const typename O::Params& params) const {
    dcp::enqueue<O>(rank.runtime, compute, params);
  }

  void collective(CollectiveKind kind, const Message& message) const {
    if (comm == compute) {
      rank.collectives.enqueue(compute, kind, message);
      return;
    }
    rank.runtime.record(forked, compute);
    rank.runtime.wait(comm, forked);
    rank.collectives.enqueue(comm, kind, message);
    rank.runtime.record(joined, comm);
    rank.runtime.wait(compute, joined);
  }
};

}  // namespace dcp
