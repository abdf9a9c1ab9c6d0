// Element types, their bits, and the conversions to and from float. Conversions round to nearest
// even, keep infinities, and turn every NaN into a NaN (IEEE 754-2019, §4.3.1 and §6.2). A GPU does
// them in hardware, with the same results but for the bits of a NaN.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/host_device.hpp"

namespace dcp {

enum class DType : std::uint8_t { kFp32, kFp16, kBf16, kFp8E4m3 };

constexpr std::size_t size_bytes(DType dtype) {
  return dtype == DType::kFp32 ? 4 : dtype == DType::kFp8E4m3 ? 1 : 2;
}

constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return "fp32";
    case DType::kFp16:
      return "fp16";
    case DType::kBf16:
      return "bf16";
    case DType::kFp8E4m3:
      return "fp8_e4m3";
  }
  return "?";
}

// Storage types: the bits of one element. Same size and alignment as the CUDA types.
struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};
struct Fp8E4m3 {  // 4 bits of exponent, 3 of mantissa, no infinity: 448 is the largest number
  std::uint8_t bits;
};

template <class T>
inline constexpr DType kDTypeOf = DType::kFp32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBf16;
template <>
inline constexpr DType kDTypeOf<Fp16> = DType::kFp16;
template <>
inline constexpr DType kDTypeOf<Fp8E4m3> = DType::kFp8E4m3;

DCP_HOST_DEVICE inline float to_float(float x) { return x; }

DCP_HOST_DEVICE inline float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

DCP_HOST_DEVICE inline float to_float(Fp16 x) {
#ifdef __CUDA_ARCH__
  float widened;
  asm("cvt.f32.f16 %0, %1;" : "=f"(widened) : "h"(x.bits));
  return widened;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) {  // infinity or NaN: all-ones exponent in both formats
    return std::bit_cast<float>(sign | 0x7F800000u | ((magnitude & 0x03FFu) << 13));
  }
  // Normal and subnormal alike: the bits, read with fp32's exponent bias, times 2^(127-15).
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
#endif
}

DCP_HOST_DEVICE inline float to_float(Fp8E4m3 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x80u) << 24;
  const std::uint32_t magnitude = x.bits & 0x7Fu;
  if (magnitude == 0x7Fu) return std::bit_cast<float>(sign | 0x7FC00000u);
  // As for fp16, times 2^(127-7).
  const float scaled = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

template <class T>
DCP_HOST_DEVICE T from_float(float x);

template <>
DCP_HOST_DEVICE inline float from_float<float>(float x) {
  return x;
}

template <>
DCP_HOST_DEVICE inline Bf16 from_float<Bf16>(float x) {
#ifdef __CUDA_ARCH__
  Bf16 rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(x));
  return rounded;
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

template <>
DCP_HOST_DEVICE inline Fp16 from_float<Fp16>(float x) {
#ifdef __CUDA_ARCH__
  Fp16 rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(x));
  return rounded;
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<std::uint16_t>(sign | 0x7E00u)};
  if (magnitude >= 0x477FF000u) return {static_cast<std::uint16_t>(sign | 0x7C00u)};  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds at fp16's subnormal step 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u))};
  }
  const std::uint32_t rounded = magnitude + 0x0FFFu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
#endif
}

// Saturates, as the GPU's conversion does: infinities and what is beyond 448 become 448.
template <>
DCP_HOST_DEVICE inline Fp8E4m3 from_float<Fp8E4m3>(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<std::uint8_t>(sign | 0x7Fu)};
  if (magnitude >= 0x43E00000u) return {static_cast<std::uint8_t>(sign | 0x7Eu)};  // >= 448
  if (magnitude < 0x3C800000u) {  // below 2^-6: adding 2^14 rounds at the subnormal step 2^-9
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return {
        static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000u))};
  }
  const std::uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return {static_cast<std::uint8_t>(sign | ((rounded - 0x3C000000u) >> 20))};
}

// Calls `body.template operator()<T>()` with the storage type of a floating dtype of 16 or 32 bits.
template <class Body>
auto dispatch_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kBf16:
      return body.template operator()<Bf16>();
    case DType::kFp16:
      return body.template operator()<Fp16>();
    default:
      return body.template operator()<float>();
  }
}

// The same for every dtype.
template <class Body>
auto dispatch_any_dtype(DType dtype, Body&& body) {
  if (dtype == DType::kFp8E4m3) return body.template operator()<Fp8E4m3>();
  return dispatch_dtype(dtype, static_cast<Body&&>(body));
}

// `body.template operator()<T, Kv>()`: Kv is what a KV cache holds, T itself or fp8_e4m3.
template <class Body>
auto dispatch_kv_dtype(DType dtype, DType kv_dtype, Body&& body) {
  return dispatch_dtype(dtype, [&]<class T>() {
    if (kv_dtype == DType::kFp8E4m3) return body.template operator()<T, Fp8E4m3>();
    return body.template operator()<T, T>();
  });
}

// Element `index` of an array of `dtype`, as float; and the reverse.
float load_element(const void* data, DType dtype, std::size_t index);
void store_element(void* data, DType dtype, std::size_t index, float value);

// `value` rounded to `dtype` and back: what a tensor of that dtype holds of it.
float round_to(DType dtype, float value);
void round_to(DType dtype, std::span<float> values);

}  // namespace dcp
