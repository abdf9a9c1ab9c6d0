// Random scenarios for property tests: small, legal, and printable as the YAML that reproduces
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dcp {

struct RandomRequest {
  int length = 0;  // global, 0 for a padding request
  int query_len = 1;
};

struct RandomScenario {
  int world_size = 1;
  int interleave = 1;
  int heads_per_rank = 1;
  int head_dim = 8;
  int rope_dim = 8;
  int block_size = 4;
  int layers = 1;
  int data_seed = 1;
  int ubatches = 1;
  int tensor_parallel_factor = 1;  // tensor_parallel_size / world_size
  int kv_head_choice = -1;         // which of the legal numbers of KV heads; -1: MLA
  int num_splits = 0;              // 0: auto
  bool context_then_new = false;   // GQA only
  std::string query = "all_gather";
  int kv_gather_rows = 0;  // of each rank; 0: no gather
  std::string kv_gather_dtype = "bf16";
  bool same_stream = false;
  bool split_layout = false;
  bool reduce_fp32 = false;
  std::string workspace = "graph_pool";  // growable: grown to its largest before the captures
  bool shared_pool = false;
  std::string dtype = "bf16";
  std::string lse_base = "e";
  std::string lse_dtype = "fp32";
  std::string stub = "exact";
  std::vector<int> capture_sizes;
  std::vector<int> styles;  // how each replay is asked for, by index modulo; empty: waited for
  std::vector<std::vector<RandomRequest>> batches;

  int tensor_parallel_size() const { return world_size * tensor_parallel_factor; }
  int num_kv_heads() const;
  int max_rows() const;  // of capture sizes and batches
  std::string yaml() const;
};

RandomScenario make_random_scenario(std::uint64_t seed);

// Simpler scenarios, each one step smaller, for shrinking a failing one.
std::vector<RandomScenario> simpler(const RandomScenario& scenario);

}  // namespace dcp
