// Rows of the packed all-to-all and the bits of an lse: all of it moves bits and converts nothing
// but a 16-bit lse, which widens exactly. A half that happens to look like a NaN survives.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.hpp"
#include "core/host_device.hpp"
#include "kernels/strided_row.hpp"

namespace dcp {

inline constexpr std::uint32_t kMinusInfinityBits = 0xFF800000u;

// The fp32 bits of an lse of any dtype; -inf where the row is empty. Whatever else an fp32 lse
// holds, NaN payloads included, stays as it is.
template <class Lse>
DCP_HOST_DEVICE std::uint32_t masked_lse_bits(const Lse& lse, bool row_is_empty) {
  return row_is_empty ? kMinusInfinityBits : std::bit_cast<std::uint32_t>(to_float(lse));
}

// An fp32 lse in the lanes of a payload type: one fp32 lane, or two of 16 bits, low half first.
template <class T>
DCP_HOST_DEVICE void store_lse_lanes(T* lanes, std::uint32_t bits) {
  if constexpr (sizeof(T) == sizeof(bits)) {
    lanes[0] = std::bit_cast<T>(bits);
  } else {
    lanes[0] = T{static_cast<std::uint16_t>(bits)};
    lanes[1] = T{static_cast<std::uint16_t>(bits >> 16)};
  }
}

template <class T>
DCP_HOST_DEVICE float load_lse_lanes(const T* lanes) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return lanes[0];
  } else {
    const std::uint32_t high = lanes[1].bits;
    return std::bit_cast<float>(high << 16 | lanes[0].bits);
  }
}

// Moves a row's elements to its contiguous payload.
template <class Team, class T>
DCP_HOST_DEVICE void move_payload(StridedRow<const T> from, T* to, int head_dim) {
  for (int i = Team::lane(); i < head_dim; i += Team::size()) to[i] = from[i];
}

}  // namespace dcp
