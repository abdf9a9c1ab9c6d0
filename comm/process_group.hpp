// The processes of one run, started together by mpirun or srun; without a launcher, or in a build
// without MPI, a group of one. Calls come from one thread at a time, the same ones in every
// process.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dcp {

class ProcessGroup {
 public:
  // The group of this process; the first call joins it. It is left when the program ends.
  static ProcessGroup& get();

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Number of this group's processes on this machine, and this one's index among them.
  int local_size() const { return local_size_; }
  int local_rank() const { return local_rank_; }

  // `bytes` of process 0 become everybody's.
  void broadcast(std::span<std::byte> bytes) const;

  // What every process gave, in the order of the processes.
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) const;

 private:
  ProcessGroup();

  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  int local_rank_ = 0;
};

}  // namespace dcp
