#include "core/poison.hpp"

#include <cstring>

namespace dcp {

void poison(void* data, std::size_t size_bytes) {
  auto* bytes = static_cast<std::byte*>(data);
  const std::size_t whole = size_bytes / sizeof(kPoison) * sizeof(kPoison);
  for (std::size_t i = 0; i < whole; i += sizeof(kPoison)) {
    std::memcpy(bytes + i, &kPoison, sizeof(kPoison));
  }
  if (whole < size_bytes) std::memcpy(bytes + whole, &kPoison, size_bytes - whole);
}

}  // namespace dcp
