// The functions of NCCL that are used, found in the library at run time: a build needs no NCCL, and
// a machine without it runs everything else. Names, values and signatures are those of nccl.h 2.18.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace dcp {

struct NcclUniqueId {
  char internal[128];
};
using NcclComm = struct NcclCommOpaque*;

enum class NcclDataType : int { kUint8 = 1, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9 };
inline constexpr int kNcclSum = 0;
inline constexpr int kNcclInProgress = 7;

struct NcclApi {
  int (*get_version)(int* version);
  const char* (*get_error_string)(int result);
  int (*get_unique_id)(NcclUniqueId* id);
  int (*comm_init_rank)(NcclComm* comm, int num_ranks, NcclUniqueId id, int rank);
  int (*comm_destroy)(NcclComm comm);
  int (*comm_abort)(NcclComm comm);
  int (*comm_get_async_error)(NcclComm comm, int* result);
  int (*all_gather)(const void* send, void* recv, std::size_t count, NcclDataType type,
                    NcclComm comm, cudaStream_t stream);
  int (*reduce_scatter)(const void* send, void* recv, std::size_t count, NcclDataType type, int op,
                        NcclComm comm, cudaStream_t stream);
  int (*all_reduce)(const void* send, void* recv, std::size_t count, NcclDataType type, int op,
                    NcclComm comm, cudaStream_t stream);
  int (*send)(const void* from, std::size_t count, NcclDataType type, int peer, NcclComm comm,
              cudaStream_t stream);
  int (*recv)(void* to, std::size_t count, NcclDataType type, int peer, NcclComm comm,
              cudaStream_t stream);
  int (*group_start)();
  int (*group_end)();
};

// Null where NCCL is missing or older than 2.18; `why` says which.
const NcclApi* find_nccl(std::string& why);

// "2.28.3"
std::string nccl_version_text(const NcclApi& nccl);

// Throws Failure rank_lost with NCCL's words.
void check_nccl(const NcclApi& nccl, int result, const char* call);

}  // namespace dcp
