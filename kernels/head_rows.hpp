// Views of [num_tokens, num_heads, ...] tensors with any strides: head-padded storage, head-major
// views, and the rank-major form [N, T, h, ...] of what an all-gather or reduce-scatter moves.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/host_device.hpp"

namespace dcp {

// Strides in elements. Head `head` belongs to rank `head / heads_per_rank`; in an ordinary
// [T, H, ...] tensor heads_per_rank is H and `rank` does not matter. 64-bit: 32768 rows of 128
// heads of 512 elements pass 2^31.
struct HeadStrides {
  std::int64_t rank;
  std::int64_t token;
  std::int64_t head;
  std::int64_t element;
  std::int32_t heads_per_rank;

  DCP_HOST_DEVICE std::int64_t offset(std::int64_t token_index, int head_index) const {
    return (head_index / heads_per_rank) * rank + token_index * token +
           (head_index % heads_per_rank) * head;
  }

  // Whether the first num_heads heads are all of one rank: an offset then takes no division.
  bool are_of_one_rank(int num_heads) const { return heads_per_rank >= num_heads; }
};

// Contiguous [T, num_heads_stored, dim]: rows of `num_heads_stored` heads, of which the first
// num_heads are used (head padding).
constexpr HeadStrides token_major(int num_heads_stored, std::int64_t dim) {
  return {.rank = 0,
          .token = num_heads_stored * dim,
          .head = dim,
          .element = 1,
          .heads_per_rank = num_heads_stored};
}

// Contiguous [N, T, h, dim].
constexpr HeadStrides rank_major(std::int64_t num_tokens, int heads_per_rank, std::int64_t dim) {
  return {.rank = num_tokens * heads_per_rank * dim,
          .token = heads_per_rank * dim,
          .head = dim,
          .element = 1,
          .heads_per_rank = heads_per_rank};
}

struct ConstHeadRows {
  const void* data;
  HeadStrides strides;
  DType dtype;
};

struct HeadRows {
  void* data;
  HeadStrides strides;
  DType dtype;

  operator ConstHeadRows() const { return {data, strides, dtype}; }
};

// Whether an lse is fp32 [T, num_heads] without gaps, as exchanges send it.
inline bool is_contiguous_lse(const ConstHeadRows& lse, int num_heads) {
  const HeadStrides& s = lse.strides;
  return lse.dtype == DType::kFp32 && s.token == num_heads && s.head == 1 &&
         s.are_of_one_rank(num_heads);
}

// The view of heads first_head, first_head + 1, ... that belong to one rank; 0: the view itself.
inline ConstHeadRows heads_from(const ConstHeadRows& rows, int first_head) {
  const std::int64_t elements = rows.strides.offset(0, first_head);
  return {.data = static_cast<const char*>(rows.data) +
                  elements * static_cast<std::int64_t>(size_bytes(rows.dtype)),
          .strides = rows.strides,
          .dtype = rows.dtype};
}

}  // namespace dcp
