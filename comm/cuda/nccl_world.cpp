#include "comm/cuda/nccl_world.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "comm/cuda/collective_faults.hpp"
#include "comm/process_group.hpp"
#include "core/error.hpp"
#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

constexpr std::chrono::minutes kWaitBound{1};

const NcclApi& nccl_or_refuse() {
  std::string why;
  const NcclApi* nccl = find_nccl(why);
  if (nccl == nullptr) throw StepError("backend_unavailable", why);
  return *nccl;
}

int num_gpus() {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

// NCCL refuses two ranks of one host on one GPU. Where ranks have to share, each says that it is a
// host of its own, and they talk through the loopback interface.
void set_host_id(int rank, bool shares_gpu, bool one_host) {
  if (!shares_gpu) return;
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  setenv("NCCL_HOSTID", (std::string(host) + "-" + std::to_string(rank)).c_str(), 1);
  if (one_host) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

// What a process says of a round: nothing, or the kind and the words of what it threw.
std::string text_of(const std::exception_ptr& thrown) {
  if (!thrown) return "";
  try {
    std::rethrow_exception(thrown);
  } catch (const StepError& error) {
    return "S" + error.kind() + "\n" + error.why();
  } catch (const Failure& failure) {
    return "F" + failure.kind() + "\n" + failure.why();
  } catch (const ApiError& error) {
    return "S" + std::string(error.kind()) + "\n" + error.what();
  } catch (const std::exception& error) {
    return "Frank_lost\n" + std::string(error.what());
  }
}

}  // namespace

struct NcclWorld::RankState {
  RankState(int rank, int device) : runtime(rank, device) {}
  CudaRuntime runtime;
  std::vector<std::unique_ptr<NcclCollectives>> owned;
  std::vector<Collectives*> communicators;
};

NcclWorld::NcclWorld(int world_size, int num_communicators, std::chrono::milliseconds wait_bound)
    : world_size_(world_size), wait_bound_(wait_bound.count() > 0 ? wait_bound : kWaitBound) {
  nccl_or_refuse();
  const ProcessGroup& group = ProcessGroup::get();
  const int gpus = num_gpus();
  int num_local = 1;
  if (group.size() > 1) {
    if (group.size() != world_size) {
      throw StepError("world_mismatch", std::to_string(world_size) + " ranks need " +
                                            std::to_string(world_size) + " processes, there are " +
                                            std::to_string(group.size()));
    }
    first_rank_ = group.rank();
    set_host_id(first_rank_, group.local_size() > gpus, group.local_size() == group.size());
  } else {
    if (world_size > gpus) {
      throw StepError("world_mismatch",
                      "NCCL in one process needs a GPU for each of the " +
                          std::to_string(world_size) + " ranks, there are " + std::to_string(gpus) +
                          ": start as many processes with mpirun -n " + std::to_string(world_size) +
                          ", or use --comm symmetric");
    }
    first_rank_ = 0;
    num_local = world_size;
  }
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);  // connect now, not during a capture
  ranks_.resize(static_cast<std::size_t>(num_local));
  threads_ = std::make_unique<RankThreads>(num_local);
  threads_->run([&](int i) {
    const int device = (group.size() > 1 ? group.local_rank() : i) % gpus;
    ranks_[static_cast<std::size_t>(i)] = std::make_unique<RankState>(first_rank_ + i, device);
  });
  connect(num_communicators);
}

NcclWorld::~NcclWorld() {
  for (const auto& rank : ranks_) {
    for (const auto& communicator : rank->owned) communicator->destroy();
  }
}

void NcclWorld::connect(int num_communicators) {
  const NcclApi& nccl = nccl_or_refuse();
  const ProcessGroup& group = ProcessGroup::get();
  for (int i = 0; i < num_communicators; ++i) {
    NcclUniqueId id{};
    if (group.rank() == 0) check_nccl(nccl, nccl.get_unique_id(&id), "ncclGetUniqueId");
    group.broadcast(std::as_writable_bytes(std::span(&id, 1)));
    run_on_all([&](RankState& rank) {
      rank.owned.push_back(std::make_unique<NcclCollectives>(nccl, rank.runtime, world_size_, id));
      rank.communicators.push_back(rank.owned.back().get());
      rank.owned.back()->warm_up();
    });
    drain();
  }
}

bool NcclWorld::has_rank(int rank) const {
  return rank >= first_rank_ && rank < first_rank_ + static_cast<int>(ranks_.size());
}

void NcclWorld::run_on_all(const std::function<void(RankState&)>& program) {
  std::mutex mutex;
  std::exception_ptr first;
  threads_->run([&](int i) {
    try {
      program(*ranks_[static_cast<std::size_t>(i)]);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  });
  agree(first);
}

// Throws in every process what the first one that fell short threw.
void NcclWorld::agree(const std::exception_ptr& thrown) {
  const std::string mine = text_of(thrown);
  const auto all = ProcessGroup::get().all_gather(std::as_bytes(std::span(mine)));
  for (std::size_t process = 0; process < all.size(); ++process) {
    const std::string said(reinterpret_cast<const char*>(all[process].data()), all[process].size());
    if (said.empty()) continue;
    abort();
    if (thrown) std::rethrow_exception(thrown);
    const std::size_t end = said.find('\n');
    const std::string kind = said.substr(1, end - 1);
    const std::string why = "process " + std::to_string(process) + ": " + said.substr(end + 1);
    if (said[0] == 'S') throw StepError(kind, why);
    throw Failure(kind, static_cast<int>(process), why);
  }
}

void NcclWorld::each_rank(const std::function<void(Rank&)>& program) {
  run_on_all([&](RankState& state) {
    Rank rank{.index = state.runtime.rank(),
              .runtime = state.runtime,
              .communicators = state.communicators};
    program(rank);
  });
}

// Collectives of NCCL wait for ever: the host looks at the clock.
void NcclWorld::wait_for_streams() {
  const auto end = std::chrono::steady_clock::now() + wait_bound_;
  for (const auto& rank : ranks_) {
    while (!rank->runtime.is_idle()) {
      for (const auto& communicator : rank->owned) {
        const std::string error = communicator->async_error();
        if (!error.empty()) throw Failure("rank_lost", rank->runtime.rank(), error);
      }
      if (std::chrono::steady_clock::now() > end) {
        throw Failure("deadlock", rank->runtime.rank(),
                      "rank " + std::to_string(rank->runtime.rank()) + " waits for its peers for " +
                          std::to_string(wait_bound_.count()) + " ms");
      }
      std::this_thread::yield();
    }
  }
}

void NcclWorld::drain() {
  std::exception_ptr thrown;
  try {
    wait_for_streams();
    for (const auto& rank : ranks_) {
      const auto fault = rank->runtime.synchronize();
      if (fault) throw failure_of(rank->runtime.rank(), *fault);
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  agree(thrown);
}

// After this nothing waits any more, and the communicators are gone: later collectives are refused.
void NcclWorld::abort() {
  for (const auto& rank : ranks_) {
    if (rank == nullptr) continue;
    for (const auto& communicator : rank->owned) {
      if (!rank->runtime.is_idle()) communicator->abort();
    }
    try {
      rank->runtime.synchronize();
    } catch (const std::exception&) {
      // The reason for the abort is the one to report.
    }
  }
}

void NcclWorld::destroy_communicators() {
  std::size_t num_live = 0;
  for (const auto& rank : ranks_) num_live += count_graphs_with<NcclCollective>(rank->runtime);
  if (num_live > 0) throw live_graphs_error(num_live);
  for (const auto& rank : ranks_) {
    for (const auto& communicator : rank->owned) communicator->destroy();
  }
}

void NcclWorld::share(std::vector<std::vector<std::byte>>& of_ranks) {
  const ProcessGroup& group = ProcessGroup::get();
  if (group.size() == 1) return;
  of_ranks = group.all_gather(of_ranks.at(static_cast<std::size_t>(first_rank_)));
}

}  // namespace dcp
