// The mark of bytes that nobody has written, or that were given back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dcp {

// NaN as fp32 and, in both halves, as bf16 and fp16.
inline constexpr std::uint32_t kPoison = 0x7FC17FC1u;

// Fills with kPoison.
void poison(void* data, std::size_t size_bytes);

}  // namespace dcp
