// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010):
// each thread has a random priority and the highest runs, but for depth - 1 random moments at which
// it falls below all others. Of n threads that take k decisions it meets an order of depth d with
// probability 1 / (n * k^(d-1)) or more.
//
// A thread is a stream of a rank, or one store on its way. What is drawn is drawn anew after each
// drain; k is the length of the longest stretch between two drains so far.
#pragma once

#include <map>
#include <random>
#include <set>

#include "runtime/host/schedule_policy.hpp"

namespace dcp {

class PctSchedule final : public SchedulePolicy {
 public:
  explicit PctSchedule(std::uint64_t seed, int depth = 3);

  std::size_t choose(std::span<const Choice> choices) override;
  void drained() override;

 private:
  // Of a stream: rank, -1, its name. Of a store: from, to, its number.
  using Thread = std::tuple<int, int, std::string>;
  static Thread thread_of(const Choice& choice);
  std::uint64_t& priority(const Choice& choice);
  void draw_changes();

  std::mt19937_64 random_;
  int depth_;
  std::map<Thread, std::uint64_t> priorities_;
  std::multiset<std::uint64_t> changes_;  // decisions of this stretch at which a thread falls
  std::uint64_t num_decisions_ = 0;       // of this stretch
  std::uint64_t longest_ = 64;
};

}  // namespace dcp
