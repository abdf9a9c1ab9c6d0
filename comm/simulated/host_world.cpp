#include "comm/simulated/host_world.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace dcp {

void SimulatedCollectives::enqueue(Stream stream, CollectiveKind kind, const Message& message) {
  if (communicator_ == nullptr) {
    throw StepError("comm_not_initialised", "rank " + std::to_string(rank_) + " calls " +
                                                std::string(name(kind)) +
                                                " but the communicators were destroyed");
  }
  dcp::enqueue<CollectiveOp>(runtime_, stream,
                             {.communicator = communicator_.get(),
                              .send = message.send,
                              .recv = message.recv,
                              .count = message.count,
                              .rank = rank_,
                              .kind = kind,
                              .dtype = message.dtype});
}

HostWorld::RankState::RankState(HostWorld& world, int rank, int world_size)
    : runtime(world.scheduler_, rank, world.backing_) {
  for (const auto& communicator : world.communicators_) {
    collectives.push_back(
        std::make_unique<SimulatedCollectives>(runtime, communicator, rank, world_size));
    communicators.push_back(collectives.back().get());
  }
}

HostWorld::HostWorld(int world_size, std::uint64_t seed, int num_communicators, Backing backing)
    : backing_(backing), stores_(world_size), scheduler_(seed) {
  scheduler_.let_arrive(&stores_);
  for (int i = 0; i < num_communicators; ++i) {
    communicators_.push_back(std::make_unique<Communicator>(world_size));
  }
  for (int rank = 0; rank < world_size; ++rank) {
    ranks_.push_back(std::make_unique<RankState>(*this, rank, world_size));
  }
}

void HostWorld::each_rank(const std::function<void(Rank&)>& program) {
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank rank{.index = static_cast<int>(index),
              .runtime = ranks_[index]->runtime,
              .communicators = ranks_[index]->communicators,
              .peers = &peer_access_};
    try {
      program(rank);
    } catch (...) {  // a refused step launches nothing: also not on the ranks before this one
      forget_pending_work();
      throw;
    }
  }
}

std::vector<Buffer> HostWorld::allocate_symmetric(std::string_view name, std::size_t size_bytes) {
  std::vector<Buffer> buffers;
  for (const auto& rank : ranks_) buffers.push_back(rank->runtime.allocate(name, size_bytes));
  return buffers;
}

void HostWorld::drain() {
  if (backing_ == Backing::kNothing) return forget_pending_work();
  try {
    scheduler_.run_all();
  } catch (const Failure&) {
    forget_pending_work();
    throw;
  }
}

void HostWorld::forget_pending_work() {
  scheduler_.abandon();
  for (const auto& rank : ranks_) rank->runtime.forget_pending_work();
  for (const auto& communicator : communicators_) {
    if (communicator != nullptr) communicator->reset();
  }
}

void HostWorld::destroy_communicators() {
  std::ptrdiff_t num_live = 0;
  const auto is_collective = [](const GraphNode& node) {
    return node.op == &kOpInfo<CollectiveOp>;
  };
  for (const auto& rank : ranks_) {
    const auto live = rank->runtime.live_graphs();
    num_live += std::count_if(live.begin(), live.end(), [&](const GraphRecord* graph) {
      return std::any_of(graph->nodes.begin(), graph->nodes.end(), is_collective);
    });
  }
  if (num_live > 0) {
    throw StepError("comm_has_live_graphs",
                    std::to_string(num_live) +
                        " captured graphs still hold the communicators: destroy them first");
  }
  for (auto& communicator : communicators_) communicator.reset();
}

}  // namespace dcp
