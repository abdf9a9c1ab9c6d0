// All ranks in one thread: their programs enqueue one after the other, then the scheduler runs what
// they enqueued in an order that the seed decides.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/simulated/communicator.hpp"
#include "comm/world.hpp"
#include "runtime/host/host_runtime.hpp"
#include "runtime/host/stores_in_flight.hpp"

namespace dcp {

class SimulatedCollectives final : public Collectives {
 public:
  SimulatedCollectives(HostRuntime& runtime, const std::unique_ptr<Communicator>& communicator,
                       int rank, int world_size)
      : runtime_(runtime), communicator_(communicator), rank_(rank), world_size_(world_size) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  void enqueue(Stream stream, CollectiveKind kind, const Message& message) override;

 private:
  HostRuntime& runtime_;
  const std::unique_ptr<Communicator>& communicator_;  // null once destroyed
  int rank_;
  int world_size_;
};

class SimulatedPeerAccess final : public PeerAccess {
 public:
  explicit SimulatedPeerAccess(RemoteStores& stores) : stores_(stores) {}
  RemoteStores* stores() override { return &stores_; }
  WaitBound wait_bound() override { return {}; }  // the scheduler sees when a wait is in vain
  void before_wait(int, Stream) override {}

 private:
  RemoteStores& stores_;
};

class HostWorld final : public World {
 public:
  // Backing::kNothing: a world for plans. What is captured there is recorded as anywhere, and what
  // is enqueued is forgotten in place of being run.
  HostWorld(int world_size, std::uint64_t seed, int num_communicators = 1,
            Backing backing = Backing::kBytes);

  int world_size() const override { return static_cast<int>(ranks_.size()); }
  bool has_bytes() const override { return backing_ == Backing::kBytes; }
  void each_rank(const std::function<void(Rank&)>& program) override;
  std::vector<Buffer> allocate_symmetric(std::string_view name, std::size_t size_bytes) override;
  void drain() override;
  void interfere(Interference* by) override {
    for (const auto& rank : ranks_) rank->runtime.interfere(by);
  }
  void destroy_communicators() override;

  HostRuntime& runtime(int rank) { return ranks_.at(rank)->runtime; }

  // Shows all work to the observer from here on; null: nobody.
  void observe(ScheduleObserver* observer) { scheduler_.observe(observer); }

  // Who decides what runs next, from here on; null: the seed.
  void follow(SchedulePolicy* policy) { scheduler_.follow(policy); }

  // What of the memory model the machine keeps. While nothing is pending.
  void keep(const MemoryOrder& order) { stores_.keep(order); }

 private:
  struct RankState {
    RankState(HostWorld& world, int rank, int world_size);
    HostRuntime runtime;
    std::vector<std::unique_ptr<SimulatedCollectives>> collectives;
    std::vector<Collectives*> communicators;  // the same, as a rank's program sees them
  };

  void forget_pending_work();

  Backing backing_;
  StoresInFlight stores_;
  SimulatedPeerAccess peer_access_{stores_};
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // null once destroyed
  std::vector<std::unique_ptr<RankState>> ranks_;
};

}  // namespace dcp
