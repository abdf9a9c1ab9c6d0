// Which request a row belongs to, and how many local keys it sees. The one place of this
// arithmetic; every op that asks about a row asks here.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace dcp {

// Device pointers to one rank's metadata. Buffers have fixed capacity: requests past the batch are
// zero-token requests of length 0, so that num_requests may be frozen by a capture.
struct BatchMetadata {
  const std::int32_t*
      query_start_loc;           // [num_requests + 1] first row of each request; null: no mask
  const std::int32_t* seq_lens;  // [num_requests] LOCAL key counts
  const std::int32_t*
      causal_bounds;  // [num_tokens] local keys at or before the row; null: no bound
  std::int32_t num_requests;
};

// Number of boundaries query_start_loc[1..R] that are <= row: repeated boundaries skip requests
// without tokens. For rows >= query_start_loc[R] the result is num_requests.
DCP_HOST_DEVICE inline std::int32_t request_of_row(const BatchMetadata& batch, std::int64_t row) {
  std::int32_t low = 0;
  std::int32_t high = batch.num_requests;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (batch.query_start_loc[middle + 1] <= row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Local keys that the row sees: 0 for padding, for a request without local keys, and for a row
// whose causal bound excludes all of them.
DCP_HOST_DEVICE inline std::int32_t visible_keys(const BatchMetadata& batch, std::int64_t row) {
  const std::int32_t request = request_of_row(batch, row);
  if (request >= batch.num_requests) return 0;
  const std::int32_t length = batch.seq_lens[request];
  if (batch.causal_bounds == nullptr) return length;
  return length < batch.causal_bounds[row] ? length : batch.causal_bounds[row];
}

// Whether the row is empty on this rank: its lse must be -inf. Without metadata nothing is masked.
DCP_HOST_DEVICE inline bool row_is_empty(const BatchMetadata& batch, std::int64_t row) {
  return batch.query_start_loc != nullptr && visible_keys(batch, row) == 0;
}

}  // namespace dcp
