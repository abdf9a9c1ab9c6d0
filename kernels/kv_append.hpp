// Stores the new tokens' keys into the paged cache: kv_cache[slot_mapping[t]] = new_kv[t], rounded
// where the cache is fp8_e4m3 (scale 1; what is beyond 448 becomes 448). A token whose slot is
// negative is not this rank's (or is padding) and is skipped.
//
// Reads T * dim elements and T slots, writes at most T * dim elements. Graph-safe: slots are read
// on the device, so that a replay follows the batch that is in slot_mapping then.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct KvAppend {
  static constexpr std::string_view kName = "kv_append";

  struct Params {
    const void* new_kv;                // [T, dim] of dtype
    void* kv_cache;                    // [num_slots, dim] of kv_dtype
    const std::int64_t* slot_mapping;  // [T]
    std::int64_t num_tokens;
    std::int64_t num_slots;
    std::int32_t dim;
    DType dtype;
    DType kv_dtype;  // dtype, or fp8_e4m3
  };

  static void accesses(const Params& params, std::vector<Access>& out);

  // Throws Failure "illegal_address" where a slot is past the cache.
  static void run(const Params& params);
};

}  // namespace dcp
