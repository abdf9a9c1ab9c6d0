// Kahan's sum. With many equal terms a plain fp32 sum rounds in the same direction every time: over
// 100,000 keys, or 64 ranks, the error passes the numeric contract. Needs that the compiler keeps
// the order of additions; holds no products, so that contraction does not matter.
#pragma once

#include "core/host_device.hpp"

namespace dcp {

// sum - error is the value: `error` is what the last addition to `sum` gave too much. Finite terms
// only: after an infinity the sum is NaN.
DCP_HOST_DEVICE inline void add_compensated(float& sum, float& error, float term) {
  const float corrected = term - error;
  const float next = sum + corrected;
  error = (next - sum) - corrected;
  sum = next;
}

}  // namespace dcp
