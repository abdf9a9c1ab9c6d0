// out = in, rounded to nearest even: the last step of a reduction that was done in fp32.
//
// Reads 4 bytes and writes e bytes per element. Graph-safe: reads only addresses in Params.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct RoundRows {
  static constexpr std::string_view kName = "round_rows";

  struct Params {
    const float* in;  // [num_elements]
    void* out;        // [num_elements] of dtype
    std::int64_t num_elements;
    DType dtype;
  };

  static void accesses(const Params& params, std::vector<Access>& out);
  static void run(const Params& params);
};

}  // namespace dcp
