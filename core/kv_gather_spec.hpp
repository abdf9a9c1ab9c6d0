// The gather of a prefix chunk's KV rows.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace dcp {

struct KvGatherSpec {
  std::int64_t tokens = 0;  // rows of all ranks together, a multiple of their number; 0: no gather
  std::int64_t dim = 0;     // elements of a row
  DType dtype = DType::kBf16;
};

}  // namespace dcp
