// All ranks in one process, a thread each, on one GPU or on several that NVLink joins: rank r is on
// the r-th of them, and those that are left begin anew with the first. Collectives are kernels
// that wait for each other: every wait is bounded, so that a rank that does not come ends the step
// and not the run.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/cuda/rank_threads.hpp"
#include "comm/cuda/stream_meeting.hpp"
#include "comm/cuda/symmetric_call.hpp"
#include "comm/world.hpp"
#include "runtime/cuda/cuda_runtime.hpp"

namespace dcp {

class SymmetricWorld final : public World {
 public:
  // StepError capacity where there are more than kMaxSymmetricRanks.
  // `wait_bound` is of each wait; 0: five seconds.
  SymmetricWorld(int world_size, int num_communicators, std::chrono::milliseconds wait_bound = {});
  ~SymmetricWorld() override;

  int world_size() const override { return static_cast<int>(ranks_.size()); }
  std::vector<Buffer> allocate_symmetric(std::string_view name, std::size_t size_bytes) override;
  void each_rank(const std::function<void(Rank&)>& program) override;
  void drain() override;
  void destroy_communicators() override;

 private:
  class Communicator;  // one of a rank
  class Peers;         // of a rank
  struct RankState;

  void run_on_all(const std::function<void(int)>& program);
  int device_of(int rank) const;
  Mailbox* const* mailboxes_of(int rank, int communicator) const;  // [N], on the rank's GPU
  void find_room();
  void allocate_mailboxes();
  void settle();
  void reset();
  void reset_what_is_left();

  int num_communicators_;
  std::chrono::nanoseconds wait_bound_;
  std::vector<int> devices_;    // that ranks are on
  int max_waiting_blocks_ = 1;  // on a GPU, of each ubatch's exchanges on one rank
  bool has_communicators_ = true;
  Pinned<volatile std::uint32_t> abort_;
  std::vector<std::unique_ptr<StreamMeeting>> meetings_;  // of each communicator's eager calls
  std::vector<std::unique_ptr<RankState>> ranks_;
  RankThreads threads_;
};

}  // namespace dcp
