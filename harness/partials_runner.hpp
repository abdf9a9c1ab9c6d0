// Runs one strategy once over partials that are given, on the simulated ranks and without an
// engine: what attention would have left on each rank goes in, what the strategy makes of it comes
// out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/make_world.hpp"
#include "runtime/graph_record.hpp"
#include "strategies/strategy.hpp"

namespace dcp {

struct RankPartials {
  std::vector<std::byte> out;          // what PartialsCase::out_strides index
  std::vector<std::byte> lse;          // what PartialsCase::lse_strides index
  std::vector<std::int32_t> seq_lens;  // [R] LOCAL key counts; not used without query_start_loc
};

// The partials of all ranks. H is a multiple of N.
struct PartialsCase {
  int world_size = 1;           // N
  std::int64_t num_tokens = 0;  // T
  int num_heads = 0;            // H
  int head_dim = 0;             // D
  DType dtype = DType::kBf16;
  LseTag lse;
  HeadStrides out_strides{};  // of [T, H, D], in elements, equal on all ranks
  HeadStrides lse_strides{};  // of [T, H]
  std::vector<RankPartials> ranks;
  std::optional<std::vector<std::int32_t>> query_start_loc;  // [R + 1]; absent: no row is masked

  int heads_per_rank() const { return num_heads / world_size; }

  // Element `element` of (row, head) in the partial of `rank`, and its lse.
  float out_at(int rank, std::int64_t row, int head, int element) const;
  float lse_at(int rank, std::int64_t row, int head) const;
};

struct PartialsOptions {
  BackendChoice backend = {};
  A2aLayout a2a_layout = A2aLayout::kInterleaved;
  DType reduce_dtype = DType::kBf16;  // of the sum in ag_rs and ag_ar
  DirectForm direct_form = DirectForm::kSteps;
  bool return_lse = true;
  std::uint64_t seed = 1;  // of the schedule
  int num_replays = 0;     // 0: eager. Else the step is captured before its data is there, and
                           // launched so many times, with poisoned results before each launch
};

struct RankCombined {
  std::vector<std::byte> out;   // [T, h or H, D] in the partials' dtype
  std::vector<float> lse;       // [T, h or H]; empty where it is not returned
  std::vector<std::byte> send;  // the strategy's buffer `send`

  // The caller's tensors after the step.
  std::vector<std::byte> partial_out;
  std::vector<std::byte> partial_lse;

  std::optional<GraphRecord> graph;  // of a captured step
};

struct PartialsResult {
  bool keeps_all_heads = false;  // every rank has all H heads, not its own h
  std::size_t egress_bytes = 0;  // of one rank, as the strategy states it
  std::vector<RankCombined> ranks;
};

// Throws Failure where the ranks do not get through, ApiError where the strategy breaks a rule of
// capture.
PartialsResult run_partials(const Strategy& strategy, const PartialsCase& partials,
                            const PartialsOptions& options);

}  // namespace dcp
