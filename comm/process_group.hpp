// The processes of one run, started together by mpirun or srun; without a launcher, or in a build
// without MPI, a group of one. Calls come from one thread at a time, the same ones in every
// process. No call waits longer than it is told to: a process that was killed or stopped, or that
// hangs, is found by its silence, and the group is broken from then on.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dcp {

class ProcessGroup {
 public:
  using Clock = std::chrono::steady_clock;
  using Bytes = std::vector<std::byte>;

  // The group of this process; the first call joins it. It is left when the program ends.
  static ProcessGroup& get();

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Number of this group's processes on this machine, and this one's index among them.
  int local_size() const { return local_size_; }
  int local_rank() const { return local_rank_; }

  // What every process gave, in the order of the processes; nothing from those that had not
  // answered when `end` came. In a broken group nobody is asked.
  std::vector<std::optional<Bytes>> all_gather(std::span<const std::byte> mine,
                                               Clock::time_point end);

  // The group cannot meet any more: somebody is silent.
  bool is_broken() const { return is_broken_; }

  // The process that tells what happened: the first one that was heard.
  bool is_speaker() const;

  // Ends the program with exit code 1 after `line` on standard error, whatever else it does; the
  // launcher then ends the others. May be called from any thread.
  [[noreturn]] static void abandon(const std::string& line);

  // Ends the program with `exit_code`, within a bound also where others will never come to the end:
  // the launcher ends those.
  [[noreturn]] void leave(int exit_code) const;

 private:
  struct Exchange;

  ProcessGroup();
  std::string silent_text() const;
  ~ProcessGroup();

  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  int local_rank_ = 0;
  bool is_broken_ = false;
  std::vector<bool> is_silent_;
  std::vector<std::unique_ptr<Exchange>> unfinished_;  // MPI still knows their memory
};

}  // namespace dcp
