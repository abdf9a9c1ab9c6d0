// Names of things that a runtime owns. Small, copyable, meaningless without their runtime.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dcp {

// As cudaStreamCaptureMode: whose potentially unsafe calls end a capture. Global: any thread's;
// thread-local: the capturing thread's; relaxed: nobody's.
enum class CaptureMode : std::uint8_t { kGlobal, kThreadLocal, kRelaxed };

struct Stream {
  int id = -1;
  friend bool operator==(Stream, Stream) = default;
};
struct Event {
  int id = -1;
  friend bool operator==(Event, Event) = default;
};
struct Graph {
  int id = -1;
  friend bool operator==(Graph, Graph) = default;
};
struct GraphExec {
  int id = -1;
  friend bool operator==(GraphExec, GraphExec) = default;
};

// Memory of one rank. `id` names the ledger entry, which knows owner and generation.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  std::uint32_t id = 0;
};

}  // namespace dcp
