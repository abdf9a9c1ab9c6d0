// One rank on a GPU: real streams, events, captures and graphs behind Runtime. All calls of a rank
// come from one thread at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/fault.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/graph_log.hpp"
#include "runtime/cuda/op_times.hpp"
#include "runtime/cuda/pinned.hpp"
#include "runtime/runtime.hpp"

namespace dcp {

class CudaRuntime final : public Runtime {
 public:
  // Makes `device` the calling thread's.
  CudaRuntime(int rank, int device);
  ~CudaRuntime() override;

  Stream make_stream(std::string_view name) override;
  Event make_event() override;
  Buffer allocate(std::string_view name, std::size_t size_bytes) override;
  std::vector<Buffer> allocate_together(std::span<const BufferRequest> parts) override;
  Buffer allocate_pinned(std::string_view name, std::size_t size_bytes) override;
  void free(const Buffer& buffer) override;
  void share_pool() override { shares_pool_ = true; }
  void enqueue(Stream stream, const OpInfo& op, std::span<const std::byte> params) override;
  void copy(Stream stream, void* to, const void* from, std::size_t size_bytes) override;
  void record(Event event, Stream stream) override;
  void wait(Stream stream, Event event) override;
  void begin_capture(Stream stream, CaptureMode mode) override;
  Graph end_capture(Stream stream) override;
  bool is_capturing(Stream stream) const override;
  void call(ApiCall call, int handle, CallingThread thread) override;
  GraphExec instantiate(Graph graph) override;
  void launch(GraphExec exec, Stream stream) override;
  void destroy(GraphExec exec) override;
  void destroy(Graph graph) override;
  const GraphRecord& record_of(Graph graph) const override { return graphs_.at(graph.id).record; }
  const Ledger& ledger() const override { return memory_.ledger(); }
  void read(void* to, const void* from, std::size_t size_bytes) override;
  void write(void* to, const void* from, std::size_t size_bytes) override;

  // A foreign op, such as a collective: `launch` enqueues its kernels, one after the other, and
  // calls its argument after each. The record has one node for all of them.
  using LaunchNode = std::function<void(cudaStream_t, const std::function<void()>& launched)>;
  void enqueue_foreign(Stream stream, const OpInfo& op, std::span<const std::byte> params,
                       const LaunchNode& launch);

  // Waits for everything that was enqueued, then frees what was given back. Returns what a kernel
  // reported since the last call. Failure where the GPU stopped. Makes the rank's GPU the calling
  // thread's, which may be another than the rank's own.
  std::optional<Fault> synchronize();

  // Times each op of the graphs that are captured from here on; null: none.
  void time_ops(OpTimes* times) { op_times_ = times; }

  cudaStream_t cuda_stream(Stream stream) const { return streams_.at(stream.id).stream; }

  bool is_idle() const;  // everything that was enqueued has run

  Fault* fault() { return fault_.get(); }
  int rank() const { return rank_; }
  int device() const { return device_; }
  std::vector<const GraphRecord*> live_graphs() const;

 private:
  struct StreamState {
    std::string name;
    cudaStream_t stream;
  };
  struct Capture {
    cudaStream_t origin = nullptr;
    std::string name;
    unsigned long long id = 0;  // CUDA's
    std::string pool;
    GraphLog log;
  };
  struct GraphState {
    cudaGraph_t graph = nullptr;  // null: destroyed
    GraphRecord record;
  };
  struct Executable {
    cudaGraphExec_t exec = nullptr;
    bool is_pending = false;  // launched since the last synchronize()
  };

  void poison(const Buffer& buffer);
  void give_back_pool(const std::string& pool);
  Capture* capture_of(cudaStream_t stream) const;
  void make_call(ApiCall call, int handle);

  int rank_;
  int device_;
  CudaMemory memory_;
  Pinned<Fault> fault_;
  cudaStream_t transfer_ = nullptr;
  std::vector<StreamState> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<std::unique_ptr<Capture>> captures_;  // in progress, the latest last
  std::deque<GraphState> graphs_;                   // record_of() hands out references
  std::vector<Executable> execs_;
  OpTimes* op_times_ = nullptr;
  int num_captures_ = 0;
  bool shares_pool_ = false;
};

}  // namespace dcp
