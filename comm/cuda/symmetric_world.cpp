#include "comm/cuda/symmetric_world.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

#include "comm/cuda/collective_faults.hpp"
#include "comm/cuda/waiting_room.hpp"
#include "core/error.hpp"
#include "kernels/accesses.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

constexpr std::chrono::seconds kWaitBound{5};

}  // namespace

class SymmetricWorld::Communicator final : public Collectives {
 public:
  Communicator(const SymmetricWorld& world, CudaRuntime& runtime, int index)
      : world_(world), runtime_(runtime), index_(index) {}

  int rank() const override { return runtime_.rank(); }
  int world_size() const override { return world_.world_size(); }

  void enqueue(Stream stream, CollectiveKind kind, const Message& message) override {
    if (!world_.has_communicators_) {
      throw StepError("comm_not_initialised", "rank " + std::to_string(rank()) + " calls " +
                                                  std::string(name(kind)) +
                                                  " but the communicators were destroyed");
    }
    SymmetricCollective::Params params;
    std::memset(&params, 0, sizeof(params));  // padding is no data
    params.mailboxes = world_.mailboxes_of(rank(), index_);
    params.abort = world_.abort_.get();
    params.fault = runtime_.fault();
    params.send = message.send;
    params.recv = message.recv;
    params.count = message.count;
    params.rank = rank();
    params.world_size = world_size();
    params.kind = kind;
    params.dtype = message.dtype;
    params.timeout_ns = world_.wait_bound_.count();
    const bool is_captured = runtime_.is_capturing(stream);
    runtime_.enqueue_foreign(
        stream, kOpInfo<SymmetricCollective>, std::as_bytes(std::span(&params, 1)),
        [&](cudaStream_t at, const auto& launched) {
          is_captured ? launch_captured(params, at, launched) : launch_eager(params, at);
        });
  }

 private:
  template <class Launched>
  static void launch_captured(const SymmetricCollective::Params& params, cudaStream_t stream,
                              const Launched& launched) {
    constexpr Rendezvous kBoth{.signals = true, .waits = true};
    launch_arrive(params, kBoth, stream);
    launched();
    launch_move(params, stream);
    launched();
    launch_depart(params, kBoth, stream);
    launched();
  }

  void launch_eager(const SymmetricCollective::Params& params, cudaStream_t stream) {
    StreamMeeting& meeting = *world_.meetings_[static_cast<std::size_t>(index_)];
    launch_arrive(params, {.signals = true, .waits = false}, stream);
    meeting.meet(rank(), stream, "deadlock", std::string(name(params.kind)));
    launch_arrive(params, {.signals = false, .waits = true}, stream);  // compares the calls
    launch_move(params, stream);
    launch_depart(params, {.signals = true, .waits = false}, stream);
    meeting.meet(rank(), stream, "deadlock", std::string(name(params.kind)));
    check_cuda(cudaGetLastError(), "a collective's launch");
  }

  const SymmetricWorld& world_;
  CudaRuntime& runtime_;
  int index_;
};

// An address is good on all ranks.
class SymmetricWorld::Peers final : public PeerAccess {
 public:
  Peers(const SymmetricWorld& world, CudaRuntime& runtime) : world_(world), runtime_(runtime) {}

  RemoteStores* stores() override { return nullptr; }
  WaitBound wait_bound() override {
    return {.abort = world_.abort_.get(),
            .timeout_ns = world_.wait_bound_.count(),
            .max_blocks = world_.max_waiting_blocks_};
  }

  FlagScope flag_scope() override {
    return world_.devices_.size() == 1 ? FlagScope::kGpu : FlagScope::kSystem;
  }

  bool may_wait_at_once(bool is_captured) override { return is_captured; }

  void before_wait(int ubatch, Stream stream) override {
    if (runtime_.is_capturing(stream)) return;
    world_.meetings_[static_cast<std::size_t>(ubatch)]->meet(
        runtime_.rank(), runtime_.cuda_stream(stream), "wait_timeout",
        "an exchange of ubatch " + std::to_string(ubatch));
  }

 private:
  const SymmetricWorld& world_;
  CudaRuntime& runtime_;
};

struct SymmetricWorld::RankState {
  RankState(const SymmetricWorld& world, int rank, int num_communicators)
      : runtime(rank, world.device_of(rank)), peers(world, runtime) {
    enable_peer_access(runtime.device(), world.devices_);
    for (int i = 0; i < num_communicators; ++i) {
      owned.push_back(std::make_unique<Communicator>(world, runtime, i));
      communicators.push_back(owned.back().get());
    }
  }
  CudaRuntime runtime;
  Peers peers;
  Buffer mailboxes;       // [num_communicators] Mailbox: its own, which all ranks write to
  Buffer mailbox_tables;  // [num_communicators][N] Mailbox*: those of all ranks
  std::vector<std::unique_ptr<Communicator>> owned;
  std::vector<Collectives*> communicators;
};

void SymmetricCollective::accesses(const Params& params, std::vector<Access>& out) {
  const auto part = params.count * static_cast<std::int64_t>(size_bytes(params.dtype));
  const bool sends_all =
      params.kind == CollectiveKind::kAllToAll || params.kind == CollectiveKind::kReduceScatter;
  const bool receives_all =
      params.kind == CollectiveKind::kAllToAll || params.kind == CollectiveKind::kAllGather;
  declare(out, params.send, sends_all ? params.world_size * part : part, Mode::kRead, "send");
  declare(out, params.recv, receives_all ? params.world_size * part : part, Mode::kWrite, "recv");
}

SymmetricWorld::SymmetricWorld(int world_size, int num_communicators,
                               std::chrono::milliseconds wait_bound)
    : num_communicators_(num_communicators),
      wait_bound_(wait_bound.count() > 0 ? wait_bound : kWaitBound),
      ranks_(static_cast<std::size_t>(world_size)),
      threads_(world_size) {
  if (world_size > kMaxSymmetricRanks) {
    throw StepError("capacity", "at most " + std::to_string(kMaxSymmetricRanks) +
                                    " ranks address each other's memory, not " +
                                    std::to_string(world_size));
  }
  devices_ = peer_devices();
  if (devices_.size() > ranks_.size()) devices_.resize(ranks_.size());
  run_on_all([&](int rank) {
    ranks_[rank] = std::make_unique<RankState>(*this, rank, num_communicators_);
  });
  find_room();
  std::vector<int> devices;
  for (int rank = 0; rank < world_size; ++rank) devices.push_back(device_of(rank));
  for (int i = 0; i < num_communicators; ++i) {
    meetings_.push_back(std::make_unique<StreamMeeting>(devices, wait_bound_));
  }
  allocate_mailboxes();
}

// No rank's memory goes while a kernel of another one may still touch it.
SymmetricWorld::~SymmetricWorld() {
  *abort_ = 1;  // whoever still waits goes home
  settle();
  ranks_.clear();
}

int SymmetricWorld::device_of(int rank) const {
  return devices_[static_cast<std::size_t>(rank) % devices_.size()];
}

// For the blocks that wait.
void SymmetricWorld::find_room() {
  const auto num_devices = static_cast<int>(devices_.size());
  const int num_sharers = (world_size() + num_devices - 1) / num_devices;
  int fewest = std::numeric_limits<int>::max();
  for (const int device : devices_) {
    int num_processors = 0;
    check_cuda(cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device),
               "cudaDeviceGetAttribute");
    fewest = std::min(fewest, num_processors);
  }
  max_waiting_blocks_ = waiting_blocks(fewest, num_sharers, num_communicators_);
}

void SymmetricWorld::allocate_mailboxes() {
  abort_ = make_pinned<volatile std::uint32_t>();
  const auto num_communicators = static_cast<std::size_t>(num_communicators_);
  const std::size_t count = num_communicators * ranks_.size();
  run_on_all([&](int rank) {
    RankState& state = *ranks_[rank];
    state.mailboxes = state.runtime.allocate("mailboxes", num_communicators * sizeof(Mailbox));
    state.mailbox_tables = state.runtime.allocate("mailbox_tables", count * sizeof(Mailbox*));
  });
  std::vector<Mailbox*> table(count);
  for (std::size_t i = 0; i < count; ++i) {
    const RankState& owner = *ranks_[i % ranks_.size()];
    table[i] = reinterpret_cast<Mailbox*>(owner.mailboxes.data) + i / ranks_.size();
  }
  for (const auto& rank : ranks_) {
    rank->runtime.write(rank->mailbox_tables.data, table.data(), count * sizeof(Mailbox*));
  }
  reset();
}

Mailbox* const* SymmetricWorld::mailboxes_of(int rank, int communicator) const {
  const Buffer& tables = ranks_[static_cast<std::size_t>(rank)]->mailbox_tables;
  return reinterpret_cast<Mailbox* const*>(tables.data) +
         static_cast<std::ptrdiff_t>(communicator) * world_size();
}

// Only while nothing is pending on any rank.
void SymmetricWorld::reset() {
  for (const auto& rank : ranks_) {
    const std::vector<std::byte> zeros(rank->mailboxes.size_bytes);
    rank->runtime.write(rank->mailboxes.data, zeros.data(), zeros.size());
  }
  *abort_ = 0;
  for (const auto& meeting : meetings_) meeting->reset();
}

void SymmetricWorld::run_on_all(const std::function<void(int)>& program) {
  std::mutex mutex;
  std::exception_ptr first;  // in time: the others may give up because of it
  threads_.run([&](int rank) {
    try {
      program(rank);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      for (const auto& meeting : meetings_) meeting->abandon();
    }
  });
  if (first) std::rethrow_exception(first);
}

std::vector<Buffer> SymmetricWorld::allocate_symmetric(std::string_view name,
                                                       std::size_t size_bytes) {
  std::vector<Buffer> buffers(ranks_.size());
  run_on_all([&](int rank) {
    buffers[static_cast<std::size_t>(rank)] =
        ranks_[static_cast<std::size_t>(rank)]->runtime.allocate(name, size_bytes);
  });
  return buffers;
}

void SymmetricWorld::each_rank(const std::function<void(Rank&)>& program) {
  try {
    run_on_all([&](int index) {
      RankState& state = *ranks_[static_cast<std::size_t>(index)];
      Rank rank{.index = index,
                .runtime = state.runtime,
                .communicators = state.communicators,
                .peers = &state.peers};
      program(rank);
    });
  } catch (...) {  // ranks that went on must not wait for the one that was refused
    *abort_ = 1;
    settle();
    reset_what_is_left();
    throw;
  }
}

// All ranks are waited for before the first failure goes on.
void SymmetricWorld::drain() {
  std::exception_ptr first;
  for (const auto& rank : ranks_) {
    try {
      const auto fault = rank->runtime.synchronize();
      if (fault) throw failure_of(rank->runtime.rank(), *fault);
    } catch (...) {
      if (!first) first = std::current_exception();
      *abort_ = 1;  // nobody else need wait until the bound
    }
  }
  if (!first) return;
  reset_what_is_left();
  std::rethrow_exception(first);
}

// Until no GPU runs anything of any rank.
void SymmetricWorld::settle() {
  for (const auto& rank : ranks_) {
    try {
      rank->runtime.synchronize();
    } catch (const std::exception&) {
      // A GPU that has stopped runs nothing; why it did has been said, or will be.
    }
  }
}

void SymmetricWorld::reset_what_is_left() {
  try {
    reset();
  } catch (const std::exception&) {
    // A GPU has stopped: what comes after this fails there too. The first reason is the one to
    // report.
  }
}

void SymmetricWorld::destroy_communicators() {
  std::size_t num_live = 0;
  for (const auto& rank : ranks_) num_live += count_graphs_with<SymmetricCollective>(rank->runtime);
  if (num_live > 0) throw live_graphs_error(num_live);
  has_communicators_ = false;
}

}  // namespace dcp
