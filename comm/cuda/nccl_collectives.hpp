// Collectives of one rank through NCCL: captured into graphs like kernels.
#pragma once

#include <thread>

#include "comm/collectives.hpp"
#include "comm/cuda/nccl_api.hpp"
#include "runtime/cuda/cuda_runtime.hpp"

namespace dcp {

struct NcclCollective {
  static constexpr std::string_view kName = "collective";
  struct Params {
    NcclComm comm;
    const void* send;
    void* recv;
    std::int64_t count;
    std::int32_t world_size;
    CollectiveKind kind;
    DType dtype;
  };
  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params&) {}  // has no host body
  static std::string_view label(const Params& params) { return name(params.kind); }
  static const void* handle(const Params& params) { return params.comm; }
};

class NcclCollectives final : public Collectives {
 public:
  // Joins the communicator `id` of all ranks; every rank does so at the same time.
  NcclCollectives(const NcclApi& nccl, CudaRuntime& runtime, int world_size,
                  const NcclUniqueId& id);
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;
  ~NcclCollectives() override;

  int rank() const override { return runtime_.rank(); }
  int world_size() const override { return world_size_; }

  // StepError comm_not_initialised after destroy().
  void enqueue(Stream stream, CollectiveKind kind, const Message& message) override;

  // One small collective of each kind, so that no connection is made during a capture.
  void warm_up();

  // Waits for the graphs that hold the communicator.
  void destroy();

  // Ends collectives in progress, here and, in time, at the peers. Does not wait: NCCL itself is
  // done with it when no graph holds the communicator any more.
  void abort();

  // "" while all is well, else NCCL's words.
  std::string async_error() const;

 private:
  void start(const NcclCollective::Params& params, cudaStream_t stream) const;

  const NcclApi& nccl_;
  CudaRuntime& runtime_;
  int world_size_;
  NcclComm comm_ = nullptr;
  std::thread aborting_;
};

}  // namespace dcp
