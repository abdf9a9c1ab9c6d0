#include "kernels/kv_append.hpp"

#include <cstring>
#include <string>

#include "core/error.hpp"
#include "kernels/accesses.hpp"

namespace dcp {

namespace {

std::int64_t row_bytes(const KvAppend::Params& params) {
  return params.dim * static_cast<std::int64_t>(size_bytes(params.dtype));
}

}  // namespace

void KvAppend::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.new_kv, params.num_tokens * row_bytes(params), Mode::kRead, "new_kv");
  declare(out, params.slot_mapping,
          params.num_tokens * static_cast<std::int64_t>(sizeof(std::int64_t)), Mode::kRead,
          "slot_mapping");
  declare_indexed(out, params.kv_cache, params.num_slots * row_bytes(params), Mode::kWrite,
                  "kv_cache");
  if (params.num_tokens == 0) touch_none(out);
}

void KvAppend::run(const Params& params) {
  const std::int64_t size = row_bytes(params);
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    const std::int64_t slot = params.slot_mapping[token];
    if (slot < 0) continue;
    if (slot >= params.num_slots) {
      throw Failure("illegal_address", -1,
                    "kv_append stores token " + std::to_string(token) + " into slot " +
                        std::to_string(slot) + " of a cache of " +
                        std::to_string(params.num_slots) + " slots");
    }
    std::memcpy(static_cast<char*>(params.kv_cache) + slot * size,
                static_cast<const char*>(params.new_kv) + token * size,
                static_cast<std::size_t>(size));
  }
}

}  // namespace dcp
