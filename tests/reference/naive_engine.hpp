// A decode step computed token by token in plain loops, to be checked by the reference; and the
// faults that the check must find.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/scenario.hpp"
#include "reference/observation.hpp"

namespace dcp {

// A small MLA scenario: 4 heads, D 16, Dq 24, bf16.
Scenario small_scenario(int world_size, DataKind kind = DataKind::kRandom);

// A small GQA scenario: 8 heads that read 4 KV heads, D 16, bf16.
Scenario small_gqa_scenario(int world_size, DataKind kind = DataKind::kRandom);

struct NaiveRun {
  std::int64_t num_rows = 0;  // T; 0: as many as the batch has
  int layer = 0;
  bool all_heads = false;                       // every rank returns all heads
  bool rounded_terms = false;                   // sum of terms that are rounded to the dtype
  std::optional<LseBase> combine_base = {};     // the base that the combine takes the lse for
  std::optional<std::int64_t> lost_token = {};  // of request 0: its owner does not attend to it
  bool swapped_lse = false;                     // the combine takes rank 0's lse for rank 1's
  bool swapped_kv_heads = false;                // query heads read the KV heads in reverse order
  bool non_causal_new_tokens = false;           // a new token sees all new tokens of its request
};

// Owns the tensors of an observation.
struct NaiveStep {
  struct Rank {
    std::vector<float> partial_out, partial_lse, out, lse;
    std::vector<float> context_out, context_lse, new_out, new_lse;  // with attention_split
  };
  int layer = 0;
  int heads_per_rank = 0;
  std::vector<float> query;
  std::vector<Rank> ranks;

  LayerObservation observation() const;
};

// The queries are the data's layer-0 queries, whatever the layer.
NaiveStep run_naive(const Scenario& scenario, const Batch& batch, const NaiveRun& run = {});

}  // namespace dcp
