// Ranks that talk through NCCL: one in each process under mpirun or srun, or all in one process
// with a GPU and a thread each. Processes agree after every round: what one of them throws, all do.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/cuda/nccl_collectives.hpp"
#include "comm/cuda/rank_threads.hpp"
#include "comm/world.hpp"

namespace dcp {

class NcclWorld final : public World {
 public:
  // StepError world_mismatch where neither the processes nor the GPUs are as many as the ranks.
  // `wait_bound` is of a drain; 0: a minute.
  NcclWorld(int world_size, int num_communicators, std::chrono::milliseconds wait_bound = {});
  ~NcclWorld() override;

  int world_size() const override { return world_size_; }
  bool has_rank(int rank) const override;
  void each_rank(const std::function<void(Rank&)>& program) override;
  void drain() override;
  void destroy_communicators() override;
  void share(std::vector<std::vector<std::byte>>& of_ranks) override;

 private:
  struct RankState;

  void connect(int num_communicators);
  void run_on_all(const std::function<void(RankState&)>& program);
  void agree(const std::exception_ptr& thrown);
  void wait_for_streams();
  void abort();

  int world_size_;
  std::chrono::milliseconds wait_bound_;
  int first_rank_;                                 // of this process
  std::vector<std::unique_ptr<RankState>> ranks_;  // of this process
  std::unique_ptr<RankThreads> threads_;
};

}  // namespace dcp
