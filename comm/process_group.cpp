#include "comm/process_group.hpp"

#include <algorithm>
#include <cstdlib>

#ifdef DCPSIM_HAS_MPI
#include <mpi.h>
#endif

namespace dcp {

ProcessGroup& ProcessGroup::get() {
  static ProcessGroup group;
  return group;
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

}  // namespace

ProcessGroup::ProcessGroup() {
  if (!is_launched()) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  std::atexit([] { MPI_Finalize(); });
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_size_);
  MPI_Comm_free(&host);
}

void ProcessGroup::broadcast(std::span<std::byte> bytes) const {
  if (size_ == 1) return;
  MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
}

std::vector<std::vector<std::byte>> ProcessGroup::all_gather(
    std::span<const std::byte> mine) const {
  if (size_ == 1) return {{mine.begin(), mine.end()}};
  const auto count = static_cast<std::size_t>(size_);
  std::vector<unsigned long long> sizes(count);
  const unsigned long long own_size = mine.size();
  MPI_Allgather(&own_size, 1, MPI_UNSIGNED_LONG_LONG, sizes.data(), 1, MPI_UNSIGNED_LONG_LONG,
                MPI_COMM_WORLD);
  std::vector<std::vector<std::byte>> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i].resize(sizes[i]);
    if (static_cast<int>(i) == rank_) all[i].assign(mine.begin(), mine.end());
    // A count of MPI is an int: what is larger goes in pieces.
    constexpr std::size_t kPiece = std::size_t{1} << 30;
    for (std::size_t begin = 0; begin < all[i].size(); begin += kPiece) {
      const std::size_t piece = std::min(kPiece, all[i].size() - begin);
      MPI_Bcast(all[i].data() + begin, static_cast<int>(piece), MPI_BYTE, static_cast<int>(i),
                MPI_COMM_WORLD);
    }
  }
  return all;
}

#else

ProcessGroup::ProcessGroup() = default;

void ProcessGroup::broadcast(std::span<std::byte>) const {}

std::vector<std::vector<std::byte>> ProcessGroup::all_gather(
    std::span<const std::byte> mine) const {
  return {{mine.begin(), mine.end()}};
}

#endif

}  // namespace dcp
