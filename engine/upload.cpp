#include "engine/upload.hpp"

#include <algorithm>

#include "core/poison.hpp"

namespace dcp {

void Upload::write(void* to, const void* from, std::size_t size_bytes) {
  if (!stream_) {
    runtime_.write(to, from, size_bytes);
    return;
  }
  parts_.push_back({to, bytes_.size(), size_bytes});
  const auto* bytes = static_cast<const std::byte*>(from);
  bytes_.insert(bytes_.end(), bytes, bytes + size_bytes);
}

void Upload::poison(void* to, std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  dcp::poison(bytes.data(), bytes.size());
  write(to, bytes.data(), bytes.size());
}

void Upload::finish() {
  if (parts_.empty()) return;
  const Buffer staging = runtime_.allocate_pinned("upload", bytes_.size());
  std::copy(bytes_.begin(), bytes_.end(), staging.data);
  for (const Part& part : parts_) {
    runtime_.copy(*stream_, part.to, staging.data + part.offset, part.size_bytes);
  }
  runtime_.free(staging);
  parts_.clear();
}

}  // namespace dcp
