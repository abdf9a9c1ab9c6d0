#include <algorithm>

#include "comm/cuda/symmetric_call.hpp"
#include "kernels/cuda/flag_scope.cuh"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

using Params = SymmetricCollective::Params;

constexpr FlagScope kScope = FlagScope::kSystem;

// Whether the flag reached `epoch` in time. Flags of a peer that is ahead count too.
__device__ bool wait_for(const std::uint32_t* flag, std::uint32_t epoch, const Params& params) {
  const auto is_there = [&] {
    return static_cast<std::int32_t>(load_acquire(flag, kScope) - epoch) >= 0;
  };
  return wait_until(is_there, params.abort, params.timeout_ns);
}

// The step is lost for all: who sees that says nothing more.
template <class... Values>
__device__ void lose(const Params& params, FaultKind kind, Values... values) {
  if (*params.abort != 0) return;
  report(params.fault, kind, values...);
  *params.abort = 1;
  __threadfence_system();
}

// Whether the peer has begun the collective `epoch` and it is the same one.
__device__ bool has_arrived(const Params& params, const Mailbox& mine, int peer,
                            std::uint32_t epoch) {
  if (!wait_for(&mine.arrived[peer], epoch, params)) {
    lose(params, FaultKind::kPeerMissing, peer, epoch, static_cast<int>(params.kind), 0);
    return false;
  }
  const Mailbox& theirs = *params.mailboxes[peer];
  const bool is_same = theirs.kind == static_cast<std::uint32_t>(params.kind) &&
                       theirs.count == params.count &&
                       theirs.dtype == static_cast<std::uint32_t>(params.dtype);
  if (!is_same) {
    lose(params, FaultKind::kMismatch, peer, theirs.kind, theirs.count, theirs.dtype,
         static_cast<int>(params.kind), params.count, static_cast<int>(params.dtype));
  }
  return is_same;
}

__global__ void arrive(const __grid_constant__ Params params,
                       const __grid_constant__ Rendezvous rendezvous) {
  Mailbox& mine = *params.mailboxes[params.rank];
  const std::uint32_t epoch = mine.epoch + (rendezvous.signals ? 1 : 0);
  const int peer = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (rendezvous.signals && peer == 0) {
    mine.send = params.send;
    mine.count = params.count;
    mine.kind = static_cast<std::uint32_t>(params.kind);
    mine.dtype = static_cast<std::uint32_t>(params.dtype);
    mine.epoch = epoch;
    __threadfence_system();
  }
  __syncthreads();
  if (peer < params.world_size && rendezvous.signals) {
    store_release(&params.mailboxes[peer]->arrived[params.rank], epoch, kScope);
  }
  if (!rendezvous.waits) return;
  const bool is_right = peer >= params.world_size || has_arrived(params, mine, peer, epoch);
  const int is_lost = __syncthreads_or(!is_right);
  if (peer == 0) mine.is_lost = static_cast<std::uint32_t>(is_lost);
}

__global__ void depart(const __grid_constant__ Params params,
                       const __grid_constant__ Rendezvous rendezvous) {
  Mailbox& mine = *params.mailboxes[params.rank];
  const int peer = static_cast<int>(threadIdx.x);
  if (peer >= params.world_size || mine.is_lost != 0) return;
  const std::uint32_t epoch = mine.epoch;
  if (rendezvous.signals) {
    store_release(&params.mailboxes[peer]->departed[params.rank], epoch, kScope);
  }
  if (!rendezvous.waits || wait_for(&mine.departed[peer], epoch, params)) return;
  lose(params, FaultKind::kPeerMissing, peer, epoch, static_cast<int>(params.kind), 1);
}

template <class Word>
__device__ void copy_words(const char* from, char* to, std::int64_t size_bytes) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < size_bytes / static_cast<std::int64_t>(sizeof(Word)); i += stride) {
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  }
}

// blockIdx.y is the rank whose part is fetched.
__global__ void gather(const __grid_constant__ Params params) {
  if (params.mailboxes[params.rank]->is_lost != 0) return;
  const int peer = static_cast<int>(blockIdx.y);
  const std::int64_t part = params.count * static_cast<std::int64_t>(size_bytes(params.dtype));
  const bool scatters = params.kind == CollectiveKind::kAllToAll;
  const char* from =
      static_cast<const char*>(params.mailboxes[peer]->send) + (scatters ? params.rank * part : 0);
  char* to = static_cast<char*>(params.recv) + peer * part;
  const auto bits = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) |
                    static_cast<std::uintptr_t>(part);
  if (bits % sizeof(uint4) == 0) {
    copy_words<uint4>(from, to, part);
  } else if (bits % sizeof(std::uint32_t) == 0) {
    copy_words<std::uint32_t>(from, to, part);
  } else {
    copy_words<std::uint16_t>(from, to, part);
  }
}

// Sum of the terms of ranks first .. last - 1 by halves, every partial sum rounded to T.
template <class T>
__device__ T sum_of_ranks(const Params& params, int first, int last, std::int64_t element) {
  if (last - first == 1) return static_cast<const T*>(params.mailboxes[first]->send)[element];
  const int middle = first + (last - first + 1) / 2;
  return from_float<T>(to_float(sum_of_ranks<T>(params, first, middle, element)) +
                       to_float(sum_of_ranks<T>(params, middle, last, element)));
}

template <class T>
__global__ void reduce(const __grid_constant__ Params params) {
  if (params.mailboxes[params.rank]->is_lost != 0) return;
  const bool scatters = params.kind == CollectiveKind::kReduceScatter;
  const std::int64_t first = scatters ? params.rank * params.count : 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < params.count;
       i += stride) {
    static_cast<T*>(params.recv)[i] = sum_of_ranks<T>(params, 0, params.world_size, first + i);
  }
}

}  // namespace

void launch_arrive(const Params& params, Rendezvous rendezvous, cudaStream_t stream) {
  arrive<<<1, kMaxSymmetricRanks, 0, stream>>>(params, rendezvous);
}

void launch_move(const Params& params, cudaStream_t stream) {
  if (params.count == 0) return;
  constexpr int kThreads = 256;
  constexpr std::int64_t kMaxBlocks = 64;
  const auto blocks_of = [&](std::int64_t threads) {
    return static_cast<unsigned>(std::min<std::int64_t>(kMaxBlocks, blocks_for(threads, kThreads)));
  };
  if (params.kind == CollectiveKind::kAllReduce || params.kind == CollectiveKind::kReduceScatter) {
    dispatch_dtype(params.dtype, [&]<class T>() {
      reduce<T><<<blocks_of(params.count), kThreads, 0, stream>>>(params);
    });
    return;
  }
  const std::int64_t vectors =
      params.count * static_cast<std::int64_t>(size_bytes(params.dtype)) / kVector + 1;
  const dim3 grid(blocks_of(vectors), static_cast<unsigned>(params.world_size));
  gather<<<grid, kThreads, 0, stream>>>(params);
}

void launch_depart(const Params& params, Rendezvous rendezvous, cudaStream_t stream) {
  depart<<<1, kMaxSymmetricRanks, 0, stream>>>(params, rendezvous);
}

}  // namespace dcp
