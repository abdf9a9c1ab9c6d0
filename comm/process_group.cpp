#include "comm/process_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "comm/watchdog.hpp"

#ifdef DCPSIM_HAS_MPI
#include <mpi.h>
#endif

namespace dcp {

namespace {

// The launcher starts all processes at about the same time.
[[maybe_unused]] constexpr std::chrono::minutes kStartBound{2};
// The first one writes its reports when all have met for the last time.
[[maybe_unused]] constexpr std::chrono::minutes kLeaveBound{2};
// How long a process of a broken group leaves the speaker alone with its report.
[[maybe_unused]] constexpr std::chrono::seconds kReportBound{5};

}  // namespace

ProcessGroup& ProcessGroup::get() {
  static ProcessGroup group;
  return group;
}

bool ProcessGroup::is_speaker() const {
  const auto heard = std::find(is_silent_.begin(), is_silent_.end(), false);
  return heard - is_silent_.begin() == rank_;
}

void ProcessGroup::abandon(const std::string& line) {
  std::fputs((line + '\n').c_str(), stderr);
  _exit(1);
}

#ifdef DCPSIM_HAS_MPI

namespace {

// Set by Open MPI's mpirun, MPICH's mpiexec and srun.
bool is_launched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

using Size = unsigned long long;

// A count of MPI is an int: what is larger goes in pieces.
constexpr std::size_t kPiece = std::size_t{1} << 30;

}  // namespace

// One meeting of all processes, from point to point: whoever is silent is known by name.
struct ProcessGroup::Exchange {
  struct Peer {
    Size size = 0;  // of its bytes
    Bytes bytes;
    std::vector<MPI_Request> requests;  // of what comes
    bool has_size = false;
    bool has_answered = false;
  };

  Exchange(std::span<const std::byte> mine, int rank, int count)
      : own(mine.begin(), mine.end()), own_size(mine.size()), peers(count) {
    for (int i = 0; i < count; ++i) {
      Peer& peer = peers[static_cast<std::size_t>(i)];
      if (i == rank) {
        peer.bytes = own;
        peer.has_answered = true;
        continue;
      }
      receive(peer, &peer.size, sizeof(Size), i);
      send(&own_size, sizeof(Size), i);
      for (std::size_t at = 0; at < own.size(); at += kPiece) {
        send(own.data() + at, std::min(kPiece, own.size() - at), i);
      }
    }
  }

  void send(const void* from, std::size_t count, int to) {
    MPI_Isend(from, static_cast<int>(count), MPI_BYTE, to, 0, MPI_COMM_WORLD, &sent.emplace_back());
  }

  static void receive(Peer& peer, void* to, std::size_t count, int from) {
    MPI_Irecv(to, static_cast<int>(count), MPI_BYTE, from, 0, MPI_COMM_WORLD,
              &peer.requests.emplace_back());
  }

  // A peer that died is one that never answers.
  static bool are_done(std::vector<MPI_Request>& requests) {
    int done = 0;
    return MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                       MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
           done != 0;
  }

  // Whether everything has been sent and received.
  bool look() {
    bool all = true;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      Peer& peer = peers[i];
      if (peer.has_answered) continue;
      if (are_done(peer.requests)) advance(peer, static_cast<int>(i));
      all &= peer.has_answered;
    }
    return are_done(sent) && all;
  }

  void advance(Peer& peer, int from) const {
    peer.requests.clear();
    if (!peer.has_size) {
      peer.has_size = true;
      peer.bytes.resize(peer.size);
      for (std::size_t at = 0; at < peer.bytes.size(); at += kPiece) {
        receive(peer, peer.bytes.data() + at, std::min(kPiece, peer.bytes.size() - at), from);
      }
    }
    peer.has_answered = peer.requests.empty();
  }

  Bytes own;
  Size own_size;
  std::vector<Peer> peers;
  std::vector<MPI_Request> sent;
};

ProcessGroup::ProcessGroup() {
  if (!is_launched()) return;
  {
    const Watchdog bound(kStartBound,
                         "dcpsim: failure rank_lost: not all processes of this run have started "
                         "MPI within two minutes",
                         &abandon);
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local_rank_);
    MPI_Comm_size(host, &local_size_);
    MPI_Comm_free(&host);
  }
  is_silent_.resize(static_cast<std::size_t>(size_));
}

ProcessGroup::~ProcessGroup() = default;

std::vector<std::optional<ProcessGroup::Bytes>> ProcessGroup::all_gather(
    std::span<const std::byte> mine, Clock::time_point end) {
  std::vector<std::optional<Bytes>> all(static_cast<std::size_t>(size_));
  if (size_ == 1 || is_broken_) {
    all[static_cast<std::size_t>(rank_)] = Bytes(mine.begin(), mine.end());
    return all;
  }
  auto exchange = std::make_unique<Exchange>(mine, rank_, size_);
  bool is_done = exchange->look();
  while (!is_done && Clock::now() < end) {
    std::this_thread::yield();
    is_done = exchange->look();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    is_silent_[i] = !exchange->peers[i].has_answered;
    if (!is_silent_[i]) all[i] = std::move(exchange->peers[i].bytes);
  }
  if (!is_done) {
    is_broken_ = true;
    unfinished_.push_back(std::move(exchange));
  }
  return all;
}

std::string ProcessGroup::silent_text() const {
  std::string ranks;
  for (std::size_t i = 0; i < is_silent_.size(); ++i) {
    if (is_silent_[i]) ranks += " " + std::to_string(i);
  }
  return "dcpsim: failure rank_lost: no answer from:" + ranks;
}

void ProcessGroup::leave(int exit_code) const {
  std::fflush(nullptr);
  if (is_broken_) {
    if (size_ > 1) {
      if (!is_speaker()) {
        std::this_thread::sleep_for(kReportBound);
        std::fputs((silent_text() + '\n').c_str(), stderr);  // the speaker has not ended all
      }
      MPI_Abort(MPI_COMM_WORLD, exit_code);
    }
    _exit(exit_code);
  }
  int is_joined = 0;
  MPI_Initialized(&is_joined);
  if (is_joined != 0) {
    const Watchdog bound(kLeaveBound,
                         "dcpsim: failure rank_lost: another process of this run has not come to "
                         "the end",
                         &abandon);
    MPI_Finalize();
  }
  std::exit(exit_code);
}

#else

struct ProcessGroup::Exchange {};

ProcessGroup::ProcessGroup() : is_silent_(1) {}

ProcessGroup::~ProcessGroup() = default;

std::vector<std::optional<ProcessGroup::Bytes>> ProcessGroup::all_gather(
    std::span<const std::byte> mine, Clock::time_point) {
  return {Bytes(mine.begin(), mine.end())};
}

void ProcessGroup::leave(int exit_code) const {
  std::fflush(nullptr);
  if (is_broken_) _exit(exit_code);
  std::exit(exit_code);
}

#endif

}  // namespace dcp
