#include "comm/cuda/nccl_api.hpp"

#include <dlfcn.h>

#include "core/error.hpp"

namespace dcp {

namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, NcclApi& api) {
  return find(library, "ncclGetVersion", api.get_version) &&
         find(library, "ncclGetErrorString", api.get_error_string) &&
         find(library, "ncclGetUniqueId", api.get_unique_id) &&
         find(library, "ncclCommInitRank", api.comm_init_rank) &&
         find(library, "ncclCommDestroy", api.comm_destroy) &&
         find(library, "ncclCommAbort", api.comm_abort) &&
         find(library, "ncclCommGetAsyncError", api.comm_get_async_error) &&
         find(library, "ncclAllGather", api.all_gather) &&
         find(library, "ncclReduceScatter", api.reduce_scatter) &&
         find(library, "ncclAllReduce", api.all_reduce) && find(library, "ncclSend", api.send) &&
         find(library, "ncclRecv", api.recv) && find(library, "ncclGroupStart", api.group_start) &&
         find(library, "ncclGroupEnd", api.group_end);
}

struct Found {
  NcclApi api{};
  bool is_there = false;
  std::string why;

  Found() {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why = std::string("NCCL is not there: ") + dlerror();
      return;
    }
    constexpr int kOldest = 21800;  // 2.18.0
    int version = 0;
    if (!find_all(library, api) || api.get_version(&version) != 0 || version < kOldest) {
      why = "NCCL 2.18 or newer is needed, libnccl.so.2 is older";
      return;
    }
    is_there = true;
  }
};

}  // namespace

const NcclApi* find_nccl(std::string& why) {
  static const Found found;
  if (!found.is_there) why = found.why;
  return found.is_there ? &found.api : nullptr;
}

std::string nccl_version_text(const NcclApi& nccl) {
  int version = 0;
  if (nccl.get_version(&version) != 0) return "unknown version";
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

void check_nccl(const NcclApi& nccl, int result, const char* call) {
  if (result == 0) return;
  throw Failure("rank_lost", -1, std::string(call) + ": " + nccl.get_error_string(result));
}

}  // namespace dcp
