// Rounds of the processes of a run, in each of which all of them meet. What one of them throws, all
// throw. Who does not come in time is lost for good: then the run is over.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace dcp {

// "ranks 0, 2 wait"
std::string ranks_text(const std::vector<int>& ranks, const std::string& one,
                       const std::string& many);

class ProcessRounds {
 public:
  using Clock = std::chrono::steady_clock;
  using OfProcesses = std::vector<std::vector<std::byte>>;

  // `wait_bound` is of a wait for another process that is at the same place, `work_bound` of what
  // one of them may do alone between two rounds, however fast the others are. Failure rank_lost
  // where a run before this one lost somebody.
  ProcessRounds(std::chrono::milliseconds wait_bound, std::chrono::milliseconds work_bound);

  // Failure rank_lost, as it was thrown first, from then on.
  bool is_over() const { return over_.has_value(); }
  void require_going_on() const;
  std::string why_over() const { return over_ ? over_->why() : ""; }

  // When a process is lost that has not come: others may still be at work that this one has done.
  Clock::time_point end_of_work() const;
  // As above, where each then waits for its GPU.
  Clock::time_point end_of_wait() const;

  // As above, of one that has waited for its GPU in vain: what the others do takes no longer.
  Clock::time_point end_of_vain_wait() const;

  // What every process gave, in their order.
  OfProcesses share(std::span<const std::byte> mine, Clock::time_point end);

  // Returns where no process throws; `thrown` is null where this one does not. Else a Failure with
  // the words of all that have one, or the refusal of the first.
  void agree(const std::exception_ptr& thrown, Clock::time_point end);

 private:
  OfProcesses meet(std::span<const std::byte> mine, Clock::time_point end, bool says_why);

  std::chrono::milliseconds wait_bound_;
  std::chrono::milliseconds work_bound_;
  Clock::time_point last_met_ = Clock::now();
  std::optional<Failure> over_;
};

}  // namespace dcp
