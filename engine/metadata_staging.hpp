// What a rank's metadata is written to before it goes up. It is laid out as the buffers are, so
// that buffers that follow each other on the device are filled by one copy: without faults on
// purpose all of them, of all ubatches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/upload.hpp"
#include "runtime/runtime.hpp"

namespace dcp {

class MetadataStaging {
 public:
  // For buffers that take `size_bytes`, each rounded up by aligned_part().
  MetadataStaging(Runtime& runtime, std::size_t size_bytes)
      : runtime_(runtime), size_bytes_(size_bytes) {}

  // Begins a batch. While nothing is pending two pinned stagings are used in turn. Where an upload
  // has a stream, the device may still read either of them: then the upload brings its own.
  void begin(const Upload& upload);

  // `values`, then `tail` up to `size` elements of the buffer.
  template <class T>
  void add(const Buffer& target, std::span<const T> values, T tail, std::int64_t size) {
    auto* to = reinterpret_cast<T*>(place(target, static_cast<std::size_t>(size) * sizeof(T)));
    std::copy(values.begin(), values.end(), to);
    std::fill(to + values.size(), to + size, tail);
  }

  // Enqueues the copies of what was added.
  void copy(Stream stream, Upload& upload) const;

 private:
  struct Copy {
    std::byte* to;
    std::size_t offset;
    std::size_t size_bytes;
    bool is_whole;  // fills its last buffer: what follows that may be filled with it
  };

  std::byte* place(const Buffer& target, std::size_t size_bytes);
  std::byte* next_pinned();

  Runtime& runtime_;
  std::size_t size_bytes_;
  Buffer pinned_[2];  // none before its first use: a plan loads nothing
  int next_ = 0;
  std::vector<std::byte> own_;    // of a batch that the upload stages
  std::byte* staging_ = nullptr;  // of the batch
  std::size_t used_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace dcp
