// One warp per token.
#include <type_traits>

#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

// What moves: rows of words as they are, or elements that are rounded.
template <class From, class To>
__global__ void append_rows(const __grid_constant__ KvAppend::Params params, Fault* fault,
                            std::int64_t row_size) {
  const std::int64_t token = global_warp();
  if (token >= params.num_tokens) return;
  const std::int64_t slot = params.slot_mapping[token];
  if (slot < 0) return;
  if (slot >= params.num_slots) {
    if (WarpTeam::lane() == 0) {
      report(fault, FaultKind::kSlotPastCache, token, slot, params.num_slots);
    }
    return;
  }
  const auto* from = static_cast<const From*>(params.new_kv) + token * row_size;
  auto* to = static_cast<To*>(params.kv_cache) + slot * row_size;
  for (std::int64_t i = WarpTeam::lane(); i < row_size; i += kWarp) {
    if constexpr (std::is_same_v<From, To>) {
      to[i] = from[i];
    } else {
      to[i] = from_float<To>(to_float(from[i]));
    }
  }
}

}  // namespace

void launch(const KvAppend::Params& params, const Launch& at) {
  if (params.num_tokens == 0) return;
  constexpr int kThreads = 128;
  const unsigned blocks = blocks_for(params.num_tokens * kWarp, kThreads);
  if (params.kv_dtype == DType::kFp8E4m3) {
    dispatch_dtype(params.dtype, [&]<class T>() {
      append_rows<T, Fp8E4m3><<<blocks, kThreads, 0, at.stream>>>(params, at.fault, params.dim);
    });
    return;
  }
  const std::int64_t row_bytes = params.dim * static_cast<std::int64_t>(size_bytes(params.dtype));
  const bool fits = row_bytes % kVector == 0 && is_aligned(params.new_kv, kVector) &&
                    is_aligned(params.kv_cache, kVector);
  if (fits) {
    append_rows<uint4, uint4>
        <<<blocks, kThreads, 0, at.stream>>>(params, at.fault, row_bytes / kVector);
  } else {
    append_rows<char, char><<<blocks, kThreads, 0, at.stream>>>(params, at.fault, row_bytes);
  }
}

}  // namespace dcp
