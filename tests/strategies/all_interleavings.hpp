// Every order in which a small world may run, up to orders that pass through the same state: a run
// stops where it comes to a state from which all has been tried.
//
// Not tried is what makes no difference:
// - An op that no other rank and no store on its way can notice (all but the end of a wait and the
//   read of a slot: what a rank stores for its peers is noticed when it arrives) runs as soon as it
//   can: it commutes with all that others do meanwhile.
// - A row that has got there is in effect without an acquire only where a read could see it, or
// where
//   a second store to the same bytes waits for it: nothing else notices before the acquire.
// - Where one thing can happen it happens: that is no state to come back to.
//
// A state is which tasks have run and which stores have arrived, what may happen next, and all
// bytes of memory, hashed to 64 bits; what follows depends on nothing else. Runs begin anew from
// the start, so that nothing has to be copied.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/host/schedule_policy.hpp"
#include "tests/strategies/exchange_world.hpp"

namespace dcp::test {

struct Explored {
  std::uint64_t num_states = 0;
  std::uint64_t num_steps = 0;   // from a state to a state
  double num_interleavings = 0;  // paths to an end: orders of the events that make a difference
  std::set<std::string> ends;    // how runs ended, as ExchangeOutcome::text()
};

class AllInterleavings {
 public:
  // Runs a fresh world under the policy; hashes its memory.
  using Hash = std::function<std::uint64_t()>;
  using Run = std::function<ExchangeOutcome(SchedulePolicy&, const std::function<void(Hash)>&)>;

  // `all`: also what makes no difference.
  explicit AllInterleavings(bool all = false) : tries_all_(all) {}
  Explored explore(const Run& run);

 private:
  struct Known {};  // thrown out of a run that came to a state that is known
  struct Node {
    std::uint64_t state;
    std::size_t num_choices;
    std::size_t next;  // choice that is being tried
    double paths;      // through the choices before
  };
  class Follower;

  void leave(double paths);

  bool tries_all_;
  std::vector<Node> path_;
  std::map<std::uint64_t, double> paths_;  // of states from which all has been tried
  Explored explored_;
};

template <class Ops>
Explored explore_all(const ExchangeCase& asked, bool all = false) {
  return AllInterleavings(all).explore(
      [&](SchedulePolicy& policy, const std::function<void(AllInterleavings::Hash)>& ready) {
        ExchangeWorld<Ops> world(asked);
        ready([&] {
          std::uint64_t hash = 14695981039346656037u;
          world.each_written_buffer([&](const Buffer& buffer) {
            for (std::size_t i = 0; i + 4 <= buffer.size_bytes; i += 4) {
              std::uint32_t word;
              std::memcpy(&word, buffer.data + i, sizeof(word));
              hash = (hash ^ word) * 1099511628211u;
            }
          });
          return hash;
        });
        return world.run(policy);
      });
}

}  // namespace dcp::test
