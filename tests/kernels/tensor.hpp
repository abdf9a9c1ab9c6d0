// Tensors of any dtype and layout for the kernels' tests, and the yardstick of their dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/batch_metadata.hpp"
#include "kernels/empty_ranks.hpp"
#include "kernels/head_rows.hpp"

namespace dcp::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance of neighbouring values of `dtype` at `x`.
inline double ulp(DType dtype, double x) {
  const int digits = dtype == DType::kFp32 ? 24 : dtype == DType::kFp16 ? 11 : 8;
  const int lowest = dtype == DType::kFp16 ? -24 : dtype == DType::kFp32 ? -149 : -133;
  const int exponent = x == 0.0 ? lowest : std::ilogb(x) - digits + 1;
  return std::ldexp(1.0, std::max(exponent, lowest));
}

// Elements of one dtype; starts as NaN in every element.
class Tensor {
 public:
  Tensor(DType dtype, std::int64_t count)
      : dtype_(dtype),
        bytes_(static_cast<std::size_t>(count) * size_bytes(dtype), std::byte{0xFF}) {}

  DType dtype() const { return dtype_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::size_t count() const { return bytes_.size() / size_bytes(dtype_); }

  float get(std::int64_t i) const {
    return load_element(data(), dtype_, static_cast<std::size_t>(i));
  }
  void set(std::int64_t i, float value) {
    store_element(data(), dtype_, static_cast<std::size_t>(i), value);
  }
  void fill(float value) {
    for (std::size_t i = 0; i < count(); ++i) set(static_cast<std::int64_t>(i), value);
  }
  std::uint32_t bits(std::int64_t i) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &bytes_[static_cast<std::size_t>(i) * size_bytes(dtype_)],
                size_bytes(dtype_));
    return bits;
  }
  void set_bits(std::int64_t i, std::uint32_t bits) {
    std::memcpy(&bytes_[static_cast<std::size_t>(i) * size_bytes(dtype_)], &bits,
                size_bytes(dtype_));
  }
  friend bool operator==(const Tensor&, const Tensor&) = default;

 private:
  DType dtype_;
  std::vector<std::byte> bytes_;
};

enum class Layout { kTokenMajor, kHeadPadded, kHeadMajor, kElementStride, kRankMajor, kReversed };
inline constexpr Layout kLayouts[] = {Layout::kTokenMajor, Layout::kHeadPadded,
                                      Layout::kHeadMajor,  Layout::kElementStride,
                                      Layout::kRankMajor,  Layout::kReversed};

struct Shape {
  int num_tokens;
  int num_heads;
  int dim;
};

// A [T, H, dim] view and its storage. Rank-major splits the heads over two ranks (H even);
// reversed has its tokens and heads in descending order of address.
struct Rows {
  Tensor storage;
  HeadStrides strides;
  std::int64_t origin = 0;

  Rows(DType dtype, const Shape& s, Layout layout = Layout::kTokenMajor)
      : storage(dtype, 4 * (std::int64_t{s.num_tokens} * (s.num_heads + 3) * s.dim + 1)),
        strides(token_major(s.num_heads, s.dim)) {
    switch (layout) {
      case Layout::kTokenMajor:
        break;
      case Layout::kHeadPadded:
        strides = token_major(s.num_heads + 3, s.dim);
        break;
      case Layout::kHeadMajor:
        strides.token = s.dim, strides.head = s.num_tokens * s.dim;
        break;
      case Layout::kElementStride:
        strides.token *= 3, strides.head *= 3, strides.element = 3;
        break;
      case Layout::kRankMajor:
        strides = rank_major(s.num_tokens, s.num_heads / 2, s.dim);
        break;
      case Layout::kReversed:
        origin = std::max(0, s.num_tokens - 1) * strides.token + (s.num_heads - 1) * strides.head;
        strides.token = -strides.token;
        strides.head = -strides.head;
        break;
    }
  }

  std::int64_t at(std::int64_t token, int head, int element = 0) const {
    return origin + strides.offset(token, head) + element * strides.element;
  }
  float get(std::int64_t token, int head, int element = 0) const {
    return storage.get(at(token, head, element));
  }
  void set(std::int64_t token, int head, int element, float value) {
    storage.set(at(token, head, element), value);
  }
  std::uint32_t bits(std::int64_t token, int head, int element = 0) const {
    return storage.bits(at(token, head, element));
  }
  HeadRows view() {
    return {static_cast<std::byte*>(storage.data()) +
                origin * static_cast<std::int64_t>(size_bytes(storage.dtype())),
            strides, storage.dtype()};
  }
};

// One rank's metadata, owned. Empty vectors are null pointers.
struct Batch {
  std::vector<std::int32_t> query_start_loc;
  std::vector<std::int32_t> seq_lens;
  std::vector<std::int32_t> causal_bounds = {};

  BatchMetadata metadata() const {
    const auto pointer = [](const std::vector<std::int32_t>& v) {
      return v.empty() ? nullptr : v.data();
    };
    return {.query_start_loc = pointer(query_start_loc),
            .seq_lens = pointer(seq_lens),
            .causal_bounds = pointer(causal_bounds),
            .num_requests = static_cast<std::int32_t>(seq_lens.size())};
  }

  // One word a row: empty on every rank, or on none.
  std::vector<std::uint64_t> empty_ranks(int num_rows) const {
    std::vector<std::uint64_t> words;
    for (int row = 0; row < num_rows; ++row) {
      words.push_back(row_is_empty(metadata(), row) ? kEveryRank : 0);
    }
    return words;
  }
};

}  // namespace dcp::test
