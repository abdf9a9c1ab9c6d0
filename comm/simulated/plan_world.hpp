// A world in which steps are captured and never run: one rank, whose buffers are addresses without
// bytes. What a capture records is what it records anywhere, so plans of any size can be looked at.
#pragma once

#include <memory>
#include <vector>

#include "comm/simulated/host_world.hpp"

namespace dcp {

class PlanWorld final : public World {
 public:
  explicit PlanWorld(int world_size, int num_communicators = 1);

  int world_size() const override { return world_size_; }
  bool has_rank(int rank) const override { return rank == 0; }
  bool has_bytes() const override { return false; }
  void each_rank(const std::function<void(Rank&)>& program) override;
  void drain() override;  // forgets what was enqueued
  void destroy_communicators() override {}

  const HostRuntime& runtime() const { return runtime_; }  // of rank 0

 private:
  int world_size_;
  Scheduler scheduler_{0};
  HostRuntime runtime_{scheduler_, 0, Backing::kNothing};
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<SimulatedCollectives>> collectives_;
  std::vector<Collectives*> seen_by_rank_;  // the same, as its program sees them
};

}  // namespace dcp
