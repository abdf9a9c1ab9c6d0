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
#include "comm/watchdog.hpp"
#include "core/error.hpp"
#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

constexpr std::chrono::minutes kWaitBound{1};
// Beyond the bound, for the start of CUDA and NCCL, and for what a rank does between two rounds:
// the data of a step, a capture of all layers and the checks on the host take their time.
constexpr std::chrono::minutes kStartBound{1};
constexpr std::chrono::minutes kProgramBound{2};
// Who wants waits to end sooner has less work between them.
constexpr int kProgramWaits = 10;
// Of a call that ends what is in progress, and of the end.
constexpr std::chrono::seconds kEndBound{10};

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

std::chrono::milliseconds program_bound(std::chrono::milliseconds wait_bound) {
  return std::min<std::chrono::milliseconds>(kProgramBound, kProgramWaits * wait_bound);
}

// Of a program that ends without a report.
std::string last_line(const ProcessRounds& rounds, const std::string& why) {
  return "dcpsim: failure rank_lost: " + (rounds.is_over() ? rounds.why_over() : why);
}

}  // namespace

struct NcclWorld::RankState {
  RankState(int rank, int device, int num_communicators) : runtime(rank, device) {
    owned.reserve(static_cast<std::size_t>(num_communicators));  // looked at while one is added
  }
  CudaRuntime runtime;
  std::vector<std::unique_ptr<NcclCollectives>> owned;
  std::vector<Collectives*> communicators;
};

NcclWorld::NcclWorld(int world_size, int num_communicators, std::chrono::milliseconds wait_bound)
    : world_size_(world_size),
      wait_bound_(wait_bound.count() > 0 ? wait_bound : kWaitBound),
      rounds_(wait_bound_, program_bound(wait_bound_)) {
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
  try {
    run_round(
        [&](int i) {
          const int device = (group.size() > 1 ? group.local_rank() : i) % gpus;
          ranks_[static_cast<std::size_t>(i)] =
              std::make_unique<RankState>(first_rank_ + i, device, num_communicators);
        },
        {"the start of CUDA", kStartBound});
    connect(num_communicators);
  } catch (...) {
    close();
    throw;
  }
}

NcclWorld::~NcclWorld() { close(); }

void NcclWorld::close() {
  const Watchdog bound(kEndBound, last_line(rounds_, "NCCL does not give up its communicators"),
                       &ProcessGroup::abandon);
  for (const auto& rank : ranks_) {
    if (rank == nullptr) continue;
    for (const auto& communicator : rank->owned) {
      rounds_.is_over() ? communicator->abort() : communicator->destroy();
    }
  }
  ranks_.clear();
}

void NcclWorld::connect(int num_communicators) {
  const NcclApi& nccl = nccl_or_refuse();
  const ProcessGroup& group = ProcessGroup::get();
  for (int i = 0; i < num_communicators; ++i) {
    NcclUniqueId id{};
    std::exception_ptr refused;
    try {
      if (group.rank() == 0) check_nccl(nccl, nccl.get_unique_id(&id), "ncclGetUniqueId");
    } catch (...) {
      refused = std::current_exception();
    }
    rounds_.agree(refused, rounds_.end_of_work() + kStartBound);
    const auto ids =
        rounds_.share(std::as_bytes(std::span(&id, 1)), rounds_.end_of_work() + kStartBound);
    std::memcpy(&id, ids.front().data(), sizeof(id));
    run_on_all(
        [&](RankState& rank) {
          rank.owned.push_back(
              std::make_unique<NcclCollectives>(nccl, rank.runtime, world_size_, id));
          rank.communicators.push_back(rank.owned.back().get());
          rank.owned.back()->warm_up();
        },
        {"ncclCommInitRank and the first collectives", kStartBound});
    drain();
  }
}

bool NcclWorld::has_rank(int rank) const {
  return rank >= first_rank_ && rank < first_rank_ + static_cast<int>(ranks_.size());
}

// A call that waits for another rank keeps a program from coming back: the queue of a GPU that is
// full, a connection that a peer does not answer.
void NcclWorld::run_round(const std::function<void(int)>& program, const Work& work) {
  rounds_.require_going_on();
  std::mutex mutex;
  std::exception_ptr first;
  const std::function<void(int)> of_thread = [&](int i) {
    try {
      program(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  threads_->begin(of_thread);
  const bool is_back = threads_->wait_until(Clock::now() + wait_bound_ + work.bound);
  std::unique_lock lock(mutex);
  if (!is_back) {
    const int rank = first_rank_ + threads_->running().front();
    first = std::make_exception_ptr(
        Failure("rank_lost", rank,
                "rank " + std::to_string(rank) + " has not come back from " + work.what));
  }
  const std::exception_ptr thrown = first;
  lock.unlock();
  try {
    // A program that does not come back has waited for another rank long enough.
    rounds_.agree(thrown, is_back ? rounds_.end_of_work() : rounds_.end_of_vain_wait());
  } catch (const std::exception& error) {
    end_collectives();
    // The programs use what is on the callers' stacks: nothing may be unwound under them.
    if (!is_back && !threads_->wait_until(Clock::now() + kEndBound)) {
      ProcessGroup::abandon(std::string("dcpsim: failure rank_lost: ") + error.what());
    }
    settle();
    throw;
  }
}

void NcclWorld::run_on_all(const std::function<void(RankState&)>& program, const Work& work) {
  run_round([&](int i) { program(*ranks_[static_cast<std::size_t>(i)]); }, work);
}

void NcclWorld::each_rank(const std::function<void(Rank&)>& program) {
  run_on_all(
      [&](RankState& state) {
        Rank rank{.index = state.runtime.rank(),
                  .runtime = state.runtime,
                  .communicators = state.communicators};
        program(rank);
      },
      {"what it enqueues", program_bound(wait_bound_)});
}

// Who waits, and who has nothing left to wait for: the one that the others miss.
std::optional<Failure> NcclWorld::deadlock() const {
  std::vector<int> waiting;
  std::vector<int> idle;
  for (const auto& rank : ranks_) {
    (rank->runtime.is_idle() ? idle : waiting).push_back(rank->runtime.rank());
  }
  if (waiting.empty()) return std::nullopt;
  std::string why = ranks_text(waiting, "waits", "wait") + " for peers for " +
                    std::to_string(wait_bound_.count()) + " ms";
  if (!idle.empty()) why += ", " + ranks_text(idle, "has", "have") + " nothing left to do";
  return Failure("deadlock", waiting.front(), why);
}

// Collectives of NCCL wait for ever: the host looks at the clock.
void NcclWorld::wait_for_streams() {
  const auto end = Clock::now() + wait_bound_;
  for (const auto& rank : ranks_) {
    while (!rank->runtime.is_idle()) {
      for (const auto& communicator : rank->owned) {
        const std::string error = communicator->async_error();
        if (error.empty()) continue;
        const int index = rank->runtime.rank();
        throw Failure("rank_lost", index,
                      "rank " + std::to_string(index) + " has lost a peer: " + error);
      }
      const auto found = Clock::now() > end ? deadlock() : std::nullopt;
      if (found) throw Failure(*found);
      std::this_thread::yield();
    }
  }
}

void NcclWorld::drain() {
  rounds_.require_going_on();
  const auto end = rounds_.end_of_wait();
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
  try {
    rounds_.agree(thrown, thrown ? rounds_.end_of_vain_wait() : end);
  } catch (...) {
    end_collectives();
    settle();
    throw;
  }
}

// After this nothing waits any more, and the communicators are gone: later collectives are refused.
void NcclWorld::end_collectives() {
  const Watchdog bound(kEndBound, last_line(rounds_, "collectives of NCCL cannot be ended"),
                       &ProcessGroup::abandon);
  // A call that does not come back may keep CUDA from answering.
  const bool may_ask = threads_->running().empty();
  for (const auto& rank : ranks_) {
    if (rank == nullptr) continue;
    bool is_idle = false;
    try {
      is_idle = may_ask && rank->runtime.is_idle();
    } catch (const std::exception&) {
      // A GPU that has stopped; its peers wait.
    }
    if (is_idle) continue;
    for (const auto& communicator : rank->owned) communicator->abort();
  }
}

void NcclWorld::settle() {
  const Watchdog bound(kEndBound, last_line(rounds_, "collectives of NCCL cannot be ended"),
                       &ProcessGroup::abandon);
  for (const auto& rank : ranks_) {
    if (rank == nullptr) continue;
    try {
      rank->runtime.synchronize();
    } catch (const std::exception&) {
      // What went wrong before is what is reported.
    }
  }
}

void NcclWorld::destroy_communicators() {
  std::size_t num_live = 0;
  for (const auto& rank : ranks_) num_live += count_graphs_with<NcclCollective>(rank->runtime);
  if (num_live > 0) throw live_graphs_error(num_live);
  const Watchdog bound(kEndBound, last_line(rounds_, "NCCL does not give up its communicators"),
                       &ProcessGroup::abandon);
  for (const auto& rank : ranks_) {
    for (const auto& communicator : rank->owned) communicator->destroy();
  }
}

void NcclWorld::share(std::vector<std::vector<std::byte>>& of_ranks) {
  if (ProcessGroup::get().size() == 1) return;
  of_ranks =
      rounds_.share(of_ranks.at(static_cast<std::size_t>(first_rank_)), rounds_.end_of_work());
}

}  // namespace dcp
