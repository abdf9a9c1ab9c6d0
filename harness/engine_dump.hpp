// Partials of any engine, and what the engine made of them, from safetensors files: one file, or
// one per rank, whose tensors then lack the leading [N] and whose results are that rank's.
//   partial_out [N, T, H, D]  fp16, bf16 or fp32
//   partial_lse [N, T, H]     fp16, bf16 or fp32
//   seq_lens [N, R], query_start_loc [R + 1]  int32 or int64, local lengths; both or neither
//   out [T, H, D] in partial_out's dtype, lse [T, H] fp32; per rank [T, h or H, ...]; may be
//   missing
//   __metadata__: lse_base (e | 2); may be missing: strategy, interleave, world_size, source, and
//   combined_by, attention_split of steps that `run --dump` writes
// Those have one file per rank, and a leading [layers] on partials and results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/engine_dump_part.hpp"
#include "harness/partials_runner.hpp"
#include "reference/tolerance.hpp"

namespace dcp {

struct EngineDump {
  std::string source;                     // who made it; may be empty
  PartialsCase partials;                  // as stored, contiguous; the lse widened to fp32
  std::vector<std::vector<bool>> masked;  // [N][T]: rows without a key on the rank
  bool masks_rows =
      false;  // `interleave` is known: by each row's causal bound, not by request only
  CombineTolerance tolerance;  // of the strategy, or where it is not named of the least exact one
  PartialsResult engine;       // its out and lse; empty where the file does not have them

  bool has_out() const { return !engine.ranks.front().out.empty(); }
  bool has_lse() const { return !engine.ranks.front().lse.empty(); }

  // Where a row and head of the group stand in the engine's result on the rank, if they do.
  std::optional<std::size_t> index_on(int rank, std::int64_t row, int head) const;

  // Of the first rank that keeps the head; only where has_lse().
  double engine_lse(std::int64_t row, int head) const;

  // The partials with the lse of masked rows at -inf: what a combine has to start from.
  PartialsCase masked_partials() const;
};

// One per layer. `paths`: one file, or one per rank in rank order where `per_rank`. Throws
// InputError with file and tensor.
std::vector<EngineDump> read_engine_dump(const std::vector<std::string>& paths, bool per_rank);

// One layer, from files that were read.
EngineDump join_engine_dump(std::vector<EngineDumpPart> parts, bool per_rank);

}  // namespace dcp
