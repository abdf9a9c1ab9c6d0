#include "kernels/round_rows.hpp"

#include "kernels/accesses.hpp"

namespace dcp {

void RoundRows::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.in, params.num_elements * static_cast<std::int64_t>(sizeof(float)),
          Mode::kRead, "in");
  declare(out, params.out,
          params.num_elements * static_cast<std::int64_t>(size_bytes(params.dtype)), Mode::kWrite,
          "out");
}

void RoundRows::run(const Params& params) {
  dispatch_dtype(params.dtype, [&]<class T>() {
    auto* out = static_cast<T*>(params.out);
    for (std::int64_t i = 0; i < params.num_elements; ++i) out[i] = from_float<T>(params.in[i]);
  });
}

}  // namespace dcp
