// Ranks that talk through NCCL: one in each process under mpirun or srun, or all in one process
// with a GPU and a thread each. Processes agree after every round: what one of them throws, all do.
//
// No wait is for ever. The GPUs' ends by `wait_bound`; a rank's program by that and ten of that, or
// two minutes; the silence of another process by that, a grace and ten times what this one did
// meanwhile, but where this one's GPU or program has waited for it in vain by the bound and a
// grace. Who has not come by then is lost, and the run is over. Where a call of CUDA, NCCL or MPI
// cannot be brought to an end, the program is ended instead.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/cuda/nccl_collectives.hpp"
#include "comm/cuda/rank_threads.hpp"
#include "comm/process_rounds.hpp"
#include "comm/world.hpp"
#include "core/error.hpp"

namespace dcp {

class NcclWorld final : public World {
 public:
  // StepError world_mismatch where neither the processes nor the GPUs are as many as the ranks.
  // `wait_bound` is of a drain; 0: a minute.
  NcclWorld(int world_size, int num_communicators, std::chrono::milliseconds wait_bound = {});
  ~NcclWorld() override;

  int world_size() const override { return world_size_; }
  bool has_rank(int rank) const override;
  bool is_over() const override { return rounds_.is_over(); }
  void each_rank(const std::function<void(Rank&)>& program) override;
  void drain() override;
  void destroy_communicators() override;
  void share(std::vector<std::vector<std::byte>>& of_ranks) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct RankState;
  struct Work {
    std::string what;
    std::chrono::milliseconds bound;  // beyond wait_bound_
  };

  void connect(int num_communicators);
  void run_round(const std::function<void(int)>& program, const Work& work);
  void run_on_all(const std::function<void(RankState&)>& program, const Work& work);
  void wait_for_streams();
  std::optional<Failure> deadlock() const;
  void close();
  void end_collectives();
  void settle();

  int world_size_;
  std::chrono::milliseconds wait_bound_;
  ProcessRounds rounds_;
  int first_rank_;                                 // of this process
  std::vector<std::unique_ptr<RankState>> ranks_;  // of this process
  std::unique_ptr<RankThreads> threads_;
};

}  // namespace dcp
