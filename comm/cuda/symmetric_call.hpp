// One collective of one rank over memory that all ranks can address, and its kernels: the ranks
// tell each other that they are there and what they send, fetch what they need from each other's
// send buffers, and tell each other that they have it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "comm/collectives.hpp"
#include "kernels/cuda/fault.hpp"
#include "kernels/op.hpp"

namespace dcp {

inline constexpr int kMaxSymmetricRanks = 64;

// What a rank tells its peers: one for each rank and communicator, in device memory.
struct Mailbox {
  // Of the collective in progress, written by the owner before it raises its flags.
  const void* send;
  std::int64_t count;
  std::uint32_t kind;
  std::uint32_t dtype;

  // Number of the owner's last collective; a replay counts on where the one before stopped.
  std::uint32_t epoch;

  // Not 0: the peers did not come, or for something else. Asked by all that follows: memory of the
  // host, where the step's faults are, is far away.
  std::uint32_t is_lost;

  // Written by the peers: the last collective that each has begun, and has finished.
  std::uint32_t arrived[kMaxSymmetricRanks];
  std::uint32_t departed[kMaxSymmetricRanks];
};

struct SymmetricCollective {
  static constexpr std::string_view kName = "collective";
  struct Params {
    Mailbox* const* mailboxes;      // [N], device memory
    volatile std::uint32_t* abort;  // not 0: the step is lost, nobody waits any more
    Fault* fault;
    const void* send;
    void* recv;
    std::int64_t count;
    std::int32_t rank;
    std::int32_t world_size;
    CollectiveKind kind;
    DType dtype;
    std::int64_t timeout_ns;
  };
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params&) {}  // has no host body: CudaRuntime launches the kernels below
  static std::string_view label(const Params& params) { return name(params.kind); }
  static const void* handle(const Params& params) { return params.mailboxes; }
};

// What a kernel of arrival or departure does: raise this rank's flag at its peers, wait until the
// peers' flags are raised, or both.
struct Rendezvous {
  bool signals;
  bool waits;
};

// The peers have begun the same collective. Waits are bounded; what goes wrong is a fault.
void launch_arrive(const SymmetricCollective::Params& params, Rendezvous rendezvous,
                   cudaStream_t stream);
// Fetches. Sums are taken over the same tree of ranks, with the same roundings, as on the host.
void launch_move(const SymmetricCollective::Params& params, cudaStream_t stream);
// The peers have fetched: then the send buffer may be written again.
void launch_depart(const SymmetricCollective::Params& params, Rendezvous rendezvous,
                   cudaStream_t stream);

}  // namespace dcp
