// Buffers that are allocated together, so that one copy may fill them all.
#pragma once

#include <cstddef>
#include <string_view>

namespace dcp {

struct BufferRequest {
  std::string_view name;
  std::size_t size_bytes;
};

// Bytes from a part's beginning to the next one's.
constexpr std::size_t aligned_part(std::size_t size_bytes) {
  constexpr std::size_t kAlignment = 256;
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace dcp
