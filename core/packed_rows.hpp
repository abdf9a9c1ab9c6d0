// The wire format of the packed all-to-all: for each destination rank, T * h rows of D payload
// elements and one fp32 LSE that travels as `lanes` elements of the payload's dtype.
//   interleaved: row r = [D payload | lanes]            (buffer [N, T, h, D + lanes])
//   split:       all payload rows, then all LSE lanes   (per destination; same total size)
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/host_device.hpp"

namespace dcp {

enum class A2aLayout : std::uint8_t { kInterleaved, kSplit };

// Elements of a 16- or 32-bit dtype that carry one fp32 LSE: low half first.
DCP_HOST_DEVICE constexpr int lse_lanes(DType dtype) { return dtype == DType::kFp32 ? 1 : 2; }

struct PackedRows {
  std::int64_t num_tokens;
  std::int32_t world_size;
  std::int32_t heads_per_rank;
  std::int32_t head_dim;
  DType dtype;
  A2aLayout layout;

  DCP_HOST_DEVICE std::int64_t rows_per_peer() const { return num_tokens * heads_per_rank; }

  // Elements that go to one peer: T * h * (D + lanes).
  DCP_HOST_DEVICE std::int64_t elements_per_peer() const {
    return rows_per_peer() * (head_dim + lse_lanes(dtype));
  }

  // Element offset of the payload of (token, local head) in the part of `peer`.
  DCP_HOST_DEVICE std::int64_t payload_offset(int peer, std::int64_t token, int head) const {
    const std::int64_t row = token * heads_per_rank + head;
    const std::int64_t stride =
        layout == A2aLayout::kInterleaved ? head_dim + lse_lanes(dtype) : head_dim;
    return peer * elements_per_peer() + row * stride;
  }

  // Element offset of its first LSE lane.
  DCP_HOST_DEVICE std::int64_t lse_offset(int peer, std::int64_t token, int head) const {
    if (layout == A2aLayout::kInterleaved) return payload_offset(peer, token, head) + head_dim;
    const std::int64_t row = token * heads_per_rank + head;
    return peer * elements_per_peer() + rows_per_peer() * head_dim + row * lse_lanes(dtype);
  }
};

}  // namespace dcp
