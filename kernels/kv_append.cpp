#include "kernels/kv_append.hpp"

#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "kernels/accesses.hpp"

namespace dcp {

namespace {

std::int64_t row_bytes(const KvAppend::Params& params, DType dtype) {
  return params.dim * static_cast<std::int64_t>(size_bytes(dtype));
}

template <class T, class Kv>
void store_row(const T* from, int dim, Kv* to) {
  for (int i = 0; i < dim; ++i) {
    if constexpr (std::is_same_v<T, Kv>) {
      to[i] = from[i];
    } else {
      to[i] = from_float<Kv>(to_float(from[i]));
    }
  }
}

}  // namespace

void KvAppend::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.new_kv, params.num_tokens * row_bytes(params, params.dtype), Mode::kRead,
          "new_kv");
  declare(out, params.slot_mapping,
          params.num_tokens * static_cast<std::int64_t>(sizeof(std::int64_t)), Mode::kRead,
          "slot_mapping");
  declare_indexed(out, params.kv_cache, params.num_slots * row_bytes(params, params.kv_dtype),
                  Mode::kWrite, "kv_cache");
  if (params.num_tokens == 0) touch_none(out);
}

void KvAppend::run(const Params& params) {
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    const std::int64_t slot = params.slot_mapping[token];
    if (slot < 0) continue;
    if (slot >= params.num_slots) {
      throw Failure("illegal_address", -1,
                    "kv_append stores token " + std::to_string(token) + " into slot " +
                        std::to_string(slot) + " of a cache of " +
                        std::to_string(params.num_slots) + " slots");
    }
    dispatch_kv_dtype(params.dtype, params.kv_dtype, [&]<class T, class Kv>() {
      store_row(static_cast<const T*>(params.new_kv) + token * params.dim, params.dim,
                static_cast<Kv*>(params.kv_cache) + slot * params.dim);
    });
  }
}

}  // namespace dcp
