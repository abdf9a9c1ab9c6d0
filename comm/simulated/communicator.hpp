// A simulated communicator: ranks meet in the order of their calls. The n-th collective of every
// rank must be the same call; the bytes move once all ranks have arrived, and not before.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "comm/collectives.hpp"
#include "kernels/op.hpp"

namespace dcp {

class Communicator;

struct CollectiveOp {
  static constexpr std::string_view kName = "collective";
  struct Params {
    Communicator* communicator;
    const void* send;
    void* recv;
    std::int64_t count;  // elements per rank
    std::int32_t rank;
    CollectiveKind kind;
    DType dtype;
  };
  static void accesses(const Params& params, std::vector<Access>& out);
  static void arrive(const Params& params);
  static bool ready(const Params& params);
  static std::string waits_for(const Params& params);
  static void run(const Params& params);
  static std::string_view label(const Params& params) { return name(params.kind); }
  static const void* handle(const Params& params) { return params.communicator; }
};

class Communicator {
 public:
  explicit Communicator(int world_size) : num_arrived_(world_size, 0) {}

  int world_size() const { return static_cast<int>(num_arrived_.size()); }

  // The rank joins its next exchange. Throws Failure `mismatch` where the ranks that are there
  // already made another call.
  void arrive(const CollectiveOp::Params& call);
  bool complete(const CollectiveOp::Params& call) const;  // all ranks are there
  std::string missing(const CollectiveOp::Params& call) const;

  // Moves the bytes of all ranks, once, and lets this rank go on.
  void finish(const CollectiveOp::Params& call);

  // Forgets exchanges in progress; the ranks count anew, together.
  void reset();

 private:
  struct Exchange {
    std::int64_t index = 0;
    std::vector<const CollectiveOp::Params*> calls;  // per rank; null: not there yet
    std::vector<bool> has_finished;                  // per rank
    int num_arrived = 0;
    int num_finished = 0;
    bool moved = false;
  };

  // Index in open_ of the exchange that the rank has joined with this call and not finished. A
  // graph's next launch calls with the same params, maybe before all ranks have finished the first.
  std::size_t exchange_of(const CollectiveOp::Params& call) const;

  std::vector<std::int64_t> num_arrived_;  // calls so far, per rank
  std::deque<Exchange> open_;              // oldest first
};

// The data movement of one complete exchange. Sums are taken over a tree of the ranks and rounded
// to the dtype after every addition, as a reduction over 16-bit wires does.
void move_bytes(const std::vector<const CollectiveOp::Params*>& calls);

}  // namespace dcp
