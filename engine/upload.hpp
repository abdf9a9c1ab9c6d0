// Host bytes on their way into device memory: written at once while nothing is pending, else copied
// by a stream, from pinned memory that is given back when the copies are done.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/runtime.hpp"

namespace dcp {

class Upload {
 public:
  // Without a stream nothing of the runtime may be pending.
  Upload(Runtime& runtime, std::optional<Stream> stream) : runtime_(runtime), stream_(stream) {}

  void write(void* to, const void* from, std::size_t size_bytes);
  void poison(void* to, std::size_t size_bytes);

  // Enqueues the copies. Nothing may be written afterwards.
  void finish();

  const std::optional<Stream>& stream() const { return stream_; }

 private:
  struct Part {
    void* to;
    std::size_t offset;
    std::size_t size_bytes;
  };

  Runtime& runtime_;
  std::optional<Stream> stream_;
  std::vector<std::byte> bytes_;
  std::vector<Part> parts_;
};

}  // namespace dcp
