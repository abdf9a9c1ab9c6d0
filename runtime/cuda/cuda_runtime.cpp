#include "runtime/cuda/cuda_runtime.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "kernels/cuda/ops.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/relaxed_capture.hpp"
#include "runtime/memcpy_op.hpp"

namespace dcp {

namespace {

// CUDA's number of the capture that the stream takes part in; none where it does not capture, or
// its capture was invalidated.
std::optional<unsigned long long> capture_id(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  check_cuda(cudaStreamGetCaptureInfo(stream, &status, &id), "cudaStreamGetCaptureInfo");
  if (status != cudaStreamCaptureStatusActive) return std::nullopt;
  return id;
}

}  // namespace

CudaRuntime::CudaRuntime(int rank, int device) : rank_(rank), device_(device) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  check_cuda(cudaStreamCreateWithFlags(&transfer_, cudaStreamNonBlocking), "cudaStreamCreate");
  fault_ = make_pinned<Fault>();
}

CudaRuntime::~CudaRuntime() {
  cudaSetDevice(device_);
  cudaDeviceSynchronize();
  for (const Executable& exec : execs_) {
    if (exec.exec != nullptr) cudaGraphExecDestroy(exec.exec);
  }
  for (const GraphState& graph : graphs_) {
    if (graph.graph != nullptr) cudaGraphDestroy(graph.graph);
  }
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const StreamState& stream : streams_) cudaStreamDestroy(stream.stream);
  cudaStreamDestroy(transfer_);
}

Stream CudaRuntime::make_stream(std::string_view name) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  streams_.push_back({std::string(name), stream});
  return {static_cast<int>(streams_.size()) - 1};
}

Event CudaRuntime::make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  events_.push_back(event);
  return {static_cast<int>(events_.size()) - 1};
}

Buffer CudaRuntime::allocate(std::string_view name, std::size_t size_bytes) {
  if (!captures_.empty()) {
    return memory_.allocate_from_pool(name, captures_.back()->pool, size_bytes);
  }
  const Buffer buffer = memory_.allocate(name, kDeviceOwner, size_bytes);
  poison(buffer);
  return buffer;
}

// NaN in every floating type.
void CudaRuntime::poison(const Buffer& buffer) {
  check_cuda(cudaMemsetAsync(buffer.data, 0xFF, buffer.size_bytes, transfer_), "cudaMemsetAsync");
  check_cuda(cudaStreamSynchronize(transfer_), "cudaStreamSynchronize");
}

std::vector<Buffer> CudaRuntime::allocate_together(std::span<const BufferRequest> parts) {
  if (!captures_.empty()) return Runtime::allocate_together(parts);
  std::vector<Buffer> buffers = memory_.allocate_together(parts, kDeviceOwner);
  for (const Buffer& buffer : buffers) poison(buffer);
  return buffers;
}

Buffer CudaRuntime::allocate_pinned(std::string_view name, std::size_t size_bytes) {
  return memory_.allocate_pinned(name, size_bytes);
}

// While its capture is in progress, memory of a pool goes back there.
void CudaRuntime::free(const Buffer& buffer) {
  const std::string& owner = memory_.ledger().at(buffer.id).owner;
  const bool is_in_use = std::any_of(captures_.begin(), captures_.end(),
                                     [&](const auto& capture) { return capture->pool == owner; });
  memory_.release(buffer, is_in_use ? Ending::kToPool : Ending::kFreed);
}

void CudaRuntime::enqueue(Stream stream, const OpInfo& op, std::span<const std::byte> params) {
  const CudaOp* body = find_cuda_op(op);
  if (body == nullptr) {
    throw StepError("backend_unavailable", std::string(op.name) + " has no GPU body");
  }
  enqueue_foreign(stream, op, params, [&](cudaStream_t at, const auto& launched) {
    body->launch(params.data(), {.stream = at, .fault = fault_.get()});
    launched();
  });
}

void CudaRuntime::enqueue_foreign(Stream stream, const OpInfo& op,
                                  std::span<const std::byte> params, const LaunchNode& launch) {
  const cudaStream_t to = cuda_stream(stream);
  Capture* const capture = capture_of(to);
  if (capture != nullptr) {
    capture->log.begin(op, params, streams_.at(stream.id).name, memory_.ledger().now());
  }
  const bool is_timed = capture != nullptr && op_times_ != nullptr;
  if (is_timed) op_times_->begin(op.name, to);
  launch(to, [&] {
    check_cuda(cudaGetLastError(), op.name);
    if (capture != nullptr) capture->log.note(to);
  });
  if (is_timed) op_times_->end(to);
}

void CudaRuntime::copy(Stream stream, void* to, const void* from, std::size_t size_bytes) {
  const auto start = [&](cudaStream_t at) {
    check_cuda(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, at), "cudaMemcpyAsync");
  };
  // Between replays: nothing is written down, so nothing is prepared for it.
  if (captures_.empty()) return start(cuda_stream(stream));
  MemcpyOp::Params params{.to = to, .from = from, .size_bytes = size_bytes};
  enqueue_foreign(stream, kOpInfo<MemcpyOp>, std::as_bytes(std::span(&params, 1)),
                  [&](cudaStream_t at, const auto& launched) {
                    start(at);
                    launched();
                  });
}

void CudaRuntime::record(Event event, Stream stream) {
  check_cuda(cudaEventRecord(events_.at(event.id), cuda_stream(stream)), "cudaEventRecord");
}

void CudaRuntime::wait(Stream stream, Event event) {
  check_cuda(cudaStreamWaitEvent(cuda_stream(stream), events_.at(event.id), 0),
             "cudaStreamWaitEvent");
}

void CudaRuntime::begin_capture(Stream stream, CaptureMode mode) {
  const cudaStreamCaptureMode modes[] = {
      cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};
  check_cuda(cudaStreamBeginCapture(cuda_stream(stream), modes[static_cast<int>(mode)]),
             "cudaStreamBeginCapture");
  auto capture = std::make_unique<Capture>();
  capture->origin = cuda_stream(stream);
  capture->name = "capture " + std::to_string(num_captures_++);
  capture->pool = shares_pool_ ? "shared pool" : capture->name;
  captures_.push_back(std::move(capture));
  // None: another rank's call has invalidated it already.
  captures_.back()->id = capture_id(cuda_stream(stream)).value_or(0);
}

Graph CudaRuntime::end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(cuda_stream(stream), &graph);
  const auto found = std::find_if(captures_.begin(), captures_.end(), [&](const auto& capture) {
    return capture->origin == cuda_stream(stream);
  });
  if (found == captures_.end()) {  // it captures nothing, or joined the capture of another
    check_cuda(error, "cudaStreamEndCapture");
    throw std::logic_error("a capture has ended that never began");
  }
  const std::unique_ptr<Capture> ended = std::move(*found);
  captures_.erase(found);
  if (error != cudaSuccess) {
    give_back_pool(ended->pool);
    if (graph != nullptr) cudaGraphDestroy(graph);
    check_cuda(error, "cudaStreamEndCapture");
  }
  GraphRecord record = ended->log.record(graph);
  record.name = ended->name;
  record.pool = ended->pool;
  graphs_.push_back({graph, std::move(record)});
  return {static_cast<int>(graphs_.size()) - 1};
}

CudaRuntime::Capture* CudaRuntime::capture_of(cudaStream_t stream) const {
  if (captures_.empty()) return nullptr;
  const auto id = capture_id(stream);
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [&](const auto& capture) { return capture->id == id; });
  return found == captures_.end() ? nullptr : found->get();
}

bool CudaRuntime::is_capturing(Stream stream) const {
  cudaStreamCaptureStatus status{};
  check_cuda(cudaStreamIsCapturing(cuda_stream(stream), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void CudaRuntime::make_call(ApiCall call, int handle) {
  void* memory = nullptr;
  switch (call) {
    case ApiCall::kStreamSynchronize:
      return check_cuda(cudaStreamSynchronize(streams_.at(handle).stream), "cudaStreamSynchronize");
    case ApiCall::kStreamQuery: {
      const cudaError_t error = cudaStreamQuery(streams_.at(handle).stream);
      return check_cuda(error == cudaErrorNotReady ? cudaSuccess : error, "cudaStreamQuery");
    }
    case ApiCall::kEventSynchronize:
      return check_cuda(cudaEventSynchronize(events_.at(handle)), "cudaEventSynchronize");
    case ApiCall::kEventQuery: {
      const cudaError_t error = cudaEventQuery(events_.at(handle));
      return check_cuda(error == cudaErrorNotReady ? cudaSuccess : error, "cudaEventQuery");
    }
    case ApiCall::kDeviceSynchronize:
      return check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    case ApiCall::kMalloc:
      check_cuda(cudaMalloc(&memory, 1), "cudaMalloc");
      return check_cuda(cudaFree(memory), "cudaFree");
    case ApiCall::kFree:
      return memory_.free_spare();
    case ApiCall::kHostMalloc:
      check_cuda(cudaMallocHost(&memory, 1), "cudaMallocHost");
      return check_cuda(cudaFreeHost(memory), "cudaFreeHost");
    case ApiCall::kMemcpy: {
      Fault copied{};
      return check_cuda(cudaMemcpy(&copied, fault_.get(), sizeof(copied), cudaMemcpyDefault),
                        "cudaMemcpy");
    }
  }
}

void CudaRuntime::call(ApiCall call, int handle, CallingThread thread) {
  if (thread == CallingThread::kSame) return make_call(call, handle);
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      check_cuda(cudaSetDevice(device_), "cudaSetDevice");
      make_call(call, handle);
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

GraphExec CudaRuntime::instantiate(Graph graph) {
  // Another rank's thread may still capture; whether this one does is for CUDA to look at.
  const auto relaxed =
      captures_.empty() ? std::make_unique<RelaxedCapture>() : std::unique_ptr<RelaxedCapture>();
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaGraphInstantiate(&exec, graphs_.at(graph.id).graph, 0), "cudaGraphInstantiate");
  execs_.push_back({exec});
  check_cuda(cudaGraphUpload(exec, transfer_), "cudaGraphUpload");
  return {static_cast<int>(execs_.size()) - 1};
}

void CudaRuntime::launch(GraphExec exec, Stream stream) {
  Executable& executable = execs_.at(exec.id);
  assert(executable.exec != nullptr);
  check_cuda(cudaGraphLaunch(executable.exec, cuda_stream(stream)), "cudaGraphLaunch");
  executable.is_pending = true;
}

void CudaRuntime::destroy(GraphExec exec) {
  Executable& executable = execs_.at(exec.id);
  if (executable.is_pending) {
    throw StepError("graph_in_flight", "a launch of the graph has not been waited for");
  }
  check_cuda(cudaGraphExecDestroy(executable.exec), "cudaGraphExecDestroy");
  executable.exec = nullptr;
}

void CudaRuntime::destroy(Graph graph) {
  GraphState& state = graphs_.at(graph.id);
  check_cuda(cudaGraphDestroy(state.graph), "cudaGraphDestroy");
  state.graph = nullptr;
  give_back_pool(state.record.pool);
}

// A pool goes with its last graph.
void CudaRuntime::give_back_pool(const std::string& pool) {
  for (const GraphRecord* record : live_graphs()) {
    if (record->pool == pool) return;
  }
  memory_.destroy_pool(pool);
}

void CudaRuntime::read(void* to, const void* from, std::size_t size_bytes) {
  check_cuda(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, transfer_),
             "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(transfer_), "cudaStreamSynchronize");
}

void CudaRuntime::write(void* to, const void* from, std::size_t size_bytes) {
  read(to, from, size_bytes);
}

bool CudaRuntime::is_idle() const {
  for (const StreamState& stream : streams_) {
    const cudaError_t error = cudaStreamQuery(stream.stream);
    if (error == cudaErrorNotReady) return false;
    check_cuda(error, "cudaStreamQuery");
  }
  return true;
}

std::optional<Fault> CudaRuntime::synchronize() {
  check_cuda(cudaSetDevice(device_), "cudaSetDevice");
  for (const StreamState& stream : streams_) {
    check_cuda(cudaStreamSynchronize(stream.stream), "cudaStreamSynchronize");
  }
  for (Executable& exec : execs_) exec.is_pending = false;
  memory_.collect();
  if (fault_->kind == 0) return std::nullopt;
  return std::exchange(*fault_, Fault{});
}

std::vector<const GraphRecord*> CudaRuntime::live_graphs() const {
  std::vector<const GraphRecord*> live;
  for (const GraphState& graph : graphs_) {
    if (graph.graph != nullptr) live.push_back(&graph.record);
  }
  return live;
}

}  // namespace dcp
