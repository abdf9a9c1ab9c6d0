#include "comm/simulated/plan_world.hpp"

namespace dcp {

PlanWorld::PlanWorld(int world_size, int num_communicators) : world_size_(world_size) {
  communicators_.reserve(static_cast<std::size_t>(num_communicators));  // collectives point there
  for (int i = 0; i < num_communicators; ++i) {
    communicators_.push_back(std::make_unique<Communicator>(world_size));
    collectives_.push_back(
        std::make_unique<SimulatedCollectives>(runtime_, communicators_.back(), 0, world_size));
    seen_by_rank_.push_back(collectives_.back().get());
  }
}

void PlanWorld::each_rank(const std::function<void(Rank&)>& program) {
  Rank rank{.index = 0, .runtime = runtime_, .communicators = seen_by_rank_};
  program(rank);
}

void PlanWorld::drain() {
  scheduler_.abandon();
  runtime_.forget_pending_work();
}

}  // namespace dcp
