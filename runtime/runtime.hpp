// What a rank's program may do to its device: the ten or so calls that a captured decode step
// needs, with CUDA's rules. Nothing above this interface knows whether a GPU is there; nothing
// below it knows what a decode step is. Every call returns at once; nothing here waits for a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/error.hpp"
#include "core/handles.hpp"
#include "core/ledger.hpp"
#include "kernels/op.hpp"
#include "runtime/api_error.hpp"
#include "runtime/buffer_request.hpp"
#include "runtime/graph_record.hpp"

namespace dcp {

// Calls that no step needs, but that an engine makes by mistake while it captures.
enum class ApiCall : std::uint8_t {
  kStreamSynchronize,
  kStreamQuery,
  kEventSynchronize,
  kEventQuery,
  kDeviceSynchronize,
  kMalloc,
  kFree,
  kHostMalloc,
  kMemcpy,  // blocking
};

enum class CallingThread : std::uint8_t { kSame, kOther };

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual Stream make_stream(std::string_view name) = 0;
  virtual Event make_event() = 0;

  // Device memory, 256-byte aligned, contents undefined (poisoned on the host backend). While a
  // stream of this runtime captures: from that capture's private pool, which may reuse a freed
  // block only after its last user node.
  virtual Buffer allocate(std::string_view name, std::size_t size_bytes) = 0;
  virtual Buffer allocate_pinned(std::string_view name, std::size_t size_bytes) = 0;

  // Buffers that are filled together: where the runtime can, they follow each other in memory, each
  // aligned_part() after the one before, so that one copy fills them all.
  virtual std::vector<Buffer> allocate_together(std::span<const BufferRequest> parts) {
    std::vector<Buffer> buffers;
    for (const BufferRequest& part : parts) buffers.push_back(allocate(part.name, part.size_bytes));
    return buffers;
  }

  // Takes effect after everything that was enqueued before.
  virtual void free(const Buffer& buffer) = 0;

  // Other memory behind the same address, which is a new allocation of the old name. Only while
  // nothing is pending. StepError backend_unavailable where the backend cannot.
  virtual Buffer remap(const Buffer& buffer) {
    static_cast<void>(buffer);
    throw StepError("backend_unavailable",
                    "this backend cannot change the memory behind an address");
  }

  // From here on captures take memory from one pool: what one capture gave back, a later one may
  // get. StepError as above.
  virtual void share_pool() {
    throw StepError("backend_unavailable", "this backend has a pool for each capture");
  }

  // Adds the op to the stream. `params` are copied now: later changes of them have no effect.
  virtual void enqueue(Stream stream, const OpInfo& op, std::span<const std::byte> params) = 0;

  // As cudaMemcpyAsync: the bytes are read when the stream gets there, not now.
  virtual void copy(Stream stream, void* to, const void* from, std::size_t size_bytes) = 0;

  virtual void record(Event event, Stream stream) = 0;
  virtual void wait(Stream stream, Event event) = 0;

  // Capture rules are CUDA's; what they refuse throws ApiError with CUDA's name and number.
  virtual void begin_capture(Stream stream, CaptureMode mode) = 0;
  virtual Graph end_capture(Stream stream) = 0;  // the stream is usable afterwards, also on a throw
  virtual bool is_capturing(Stream stream) const = 0;

  // `thread` is the thread that makes the call, seen from the capturing one.
  virtual void call(ApiCall call, int handle, CallingThread thread) = 0;

  virtual GraphExec instantiate(Graph graph) = 0;
  virtual void launch(GraphExec exec, Stream stream) = 0;
  virtual void destroy(GraphExec exec) = 0;  // StepError graph_in_flight: a launch was not drained
  virtual void destroy(Graph graph) = 0;     // gives back its pool

  virtual const GraphRecord& record_of(Graph graph) const = 0;
  virtual const Ledger& ledger() const = 0;

  // Blocking copies from and to device memory; only while nothing of this runtime is pending.
  virtual void read(void* to, const void* from, std::size_t size_bytes) = 0;
  virtual void write(void* to, const void* from, std::size_t size_bytes) = 0;
};

// Typed front of Runtime::enqueue. Padding of Params is cleared, so that it never looks like data.
template <Op O>
void enqueue(Runtime& runtime, Stream stream, typename O::Params params) {
  __builtin_clear_padding(&params);
  runtime.enqueue(stream, kOpInfo<O>, std::as_bytes(std::span(&params, 1)));
}

}  // namespace dcp
