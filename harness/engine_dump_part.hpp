// One file of an engine dump: checked and decoded, not yet joined with those of other ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/safetensors.hpp"
#include "harness/partials_runner.hpp"

namespace dcp {

struct EngineDumpPart {
  std::string path;
  std::string source;
  std::string strategy;  // that combined; empty: not named
  LseBase base = LseBase::kE;
  std::optional<std::int64_t> interleave;
  bool context_only = false;  // partials of the keys before the step's tokens; results of all keys
  std::optional<std::int64_t> world_size;  // that the file claims
  std::int64_t num_tokens = 0;
  int num_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kBf16;
  std::vector<RankPartials> ranks;  // [N], or one
  std::optional<std::vector<std::int32_t>> query_start_loc;
  int num_out_heads = 0;       // of `out` and `lse`; 0: there are none
  std::vector<std::byte> out;  // [T, num_out_heads, D]
  std::vector<float> lse;      // [T, num_out_heads]

  [[noreturn]] void refuse(std::string_view why) const;
};

// One per layer of the file. Throws InputError. `one_rank`: tensors lack the leading [N] and may
// have a leading [layers].
std::vector<EngineDumpPart> read_engine_dump_parts(const std::string& path, bool one_rank);

// A file of one layer that is in memory; `path` is only for messages.
EngineDumpPart engine_dump_part(const std::string& path, TensorFile file, bool one_rank);

}  // namespace dcp
