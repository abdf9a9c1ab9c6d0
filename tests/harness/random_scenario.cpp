#include "tests/harness/random_scenario.hpp"

#include <algorithm>
#include <random>

namespace dcp {

namespace {

constexpr int kNumStyles = 6;  // of replay_text

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  int between(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
  }

 private:
  std::mt19937_64 random_;
};

int num_rows(const std::vector<RandomRequest>& batch) {
  int rows = 0;
  for (const RandomRequest& request : batch) rows += request.query_len;
  return rows;
}

std::vector<RandomRequest> draw_batch(Draw& draw) {
  std::vector<RandomRequest> batch(static_cast<std::size_t>(draw.between(1, 4)));
  for (RandomRequest& request : batch) {
    request.query_len = draw.chance(60) ? 1 : draw.between(0, 4);
    const bool padding = draw.chance(15);
    request.length = padding ? 0 : request.query_len + draw.between(0, draw.chance(30) ? 90 : 9);
  }
  return batch;
}

std::string list(const std::vector<int>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text + "]";
}

}  // namespace

RandomScenario make_random_scenario(std::uint64_t seed) {
  Draw draw(seed);
  RandomScenario s;
  s.world_size = draw.one_of<int>({1, 2, 2, 3, 4, 4, 5, 7, 8});
  s.interleave = draw.one_of<int>({1, 1, 1, 2, 3, 16});
  s.heads_per_rank = draw.between(1, 3);
  s.head_dim = draw.one_of<int>({8, 16, 24, 40});
  s.rope_dim = draw.one_of<int>({8, 16});
  s.block_size = draw.one_of<int>({1, 4, 16});
  s.layers = draw.between(1, 3);
  s.data_seed = draw.between(1, 1000);
  s.ubatches = draw.chance(40) ? draw.between(2, 3) : 1;
  if (draw.chance(25)) s.query = "replicate";
  s.same_stream = draw.chance(25);
  s.split_layout = draw.chance(50);
  s.reduce_fp32 = draw.chance(30);
  s.workspace = draw.one_of<std::string>({"graph_pool", "graph_pool", "fixed", "growable"});
  s.shared_pool = draw.chance(40);
  s.dtype = draw.one_of<std::string>({"bf16", "fp16", "fp32"});
  s.lse_base = draw.one_of<std::string>({"e", "2"});
  s.lse_dtype = draw.one_of<std::string>({"fp32", "fp32", "fp32", "bf16", "fp16"});
  s.stub = draw.one_of<std::string>({"exact", "poison_empty", "plus_inf", "nan_pad", "untouched"});
  for (int i = draw.between(1, 3); i > 0; --i) s.batches.push_back(draw_batch(draw));
  for (const auto& batch : s.batches) {
    const int rows = num_rows(batch) + draw.between(0, 3);
    const bool known =
        std::find(s.capture_sizes.begin(), s.capture_sizes.end(), rows) != s.capture_sizes.end();
    if (rows > 0 && !known && draw.chance(80)) s.capture_sizes.push_back(rows);
  }
  if (s.capture_sizes.empty()) s.capture_sizes.push_back(2);
  s.tensor_parallel_factor = draw.one_of<int>({1, 1, 2, 4});
  s.num_splits = draw.one_of<int>({0, 0, 1, 2, 3, 7, 40});
  if (draw.chance(60)) {
    s.kv_head_choice = draw.between(0, 11);
    s.context_then_new = draw.chance(60);
  }
  for (int i = draw.chance(70) ? draw.between(1, 6) : 0; i > 0; --i) {
    s.styles.push_back(draw.between(0, kNumStyles - 1));
  }
  if (draw.chance(40)) s.query = "direct";
  if (draw.chance(40)) s.kv_gather_rows = draw.between(1, 9);
  s.kv_gather_dtype = draw.one_of<std::string>({"bf16", "fp16", "fp8_e4m3"});
  return s;
}

// One of the divisors of num_heads of which a group holds a whole number, or less than one.
int RandomScenario::num_kv_heads() const {
  const int num_heads = tensor_parallel_size() * heads_per_rank;
  std::vector<int> legal;
  for (int kv_heads = 1; kv_heads <= num_heads; ++kv_heads) {
    const bool is_whole =
        kv_heads < tensor_parallel_factor || kv_heads % tensor_parallel_factor == 0;
    if (num_heads % kv_heads == 0 && is_whole) legal.push_back(kv_heads);
  }
  return legal[static_cast<std::size_t>(kv_head_choice) % legal.size()];
}

namespace {

// A replay of the batch in one of the harmless ways to ask for it: waited for, pending, by all
// ranks together, after a sync on a stream of its own, on that stream in order, or several.
std::string replay_text(const RandomScenario& s, const std::string& batch, int style) {
  const std::string step = "  - replay: {batch: " + batch;
  switch (style) {
    case 1:
      return step + ", wait: false}\n";
    case 2: {
      std::string text = "  - together:\n";
      for (int rank = s.world_size - 1; rank >= 0; --rank) {
        text += "      - {replay: " + batch + ", rank: " + std::to_string(rank) + "}\n";
      }
      return text;
    }
    case 3:
      return "  - sync: all\n" + step + ", stream: s1}\n";
    case 4:
      return "  - fork: s1\n" + step + ", stream: s1, wait: false}\n  - join: s1\n";
    case 5:
      return step + ", times: 3, wait: false}\n  - eager: {batch: " + batch + ", wait: false}\n";
    default:
      return step + "}\n";
  }
}

std::string model_text(const RandomScenario& s) {
  const std::string num_heads = std::to_string(s.tensor_parallel_size() * s.heads_per_rank);
  if (s.kv_head_choice < 0) {
    return "{attention: mla, num_heads: " + num_heads +
           ", kv_lora_rank: " + std::to_string(s.head_dim) +
           ", rope_dim: " + std::to_string(s.rope_dim) + "}";
  }
  return "{attention: gqa, num_heads: " + num_heads +
         ", num_kv_heads: " + std::to_string(s.num_kv_heads()) +
         ", head_dim: " + std::to_string(s.head_dim) + "}";
}

}  // namespace

int RandomScenario::max_rows() const {
  int most = *std::max_element(capture_sizes.begin(), capture_sizes.end());
  for (const auto& batch : batches) most = std::max(most, num_rows(batch));
  return most;
}

std::string RandomScenario::yaml() const {
  std::string text = "schema: 1\nworld_size: " + std::to_string(world_size) +
                     "\ntensor_parallel_size: " + std::to_string(tensor_parallel_size()) +
                     "\ninterleave: " + std::to_string(interleave) +
                     "\nmodel: " + model_text(*this) + "\n";
  text += "split_kv: " + (num_splits == 0 ? "auto" : std::to_string(num_splits)) + "\n";
  if (context_then_new) text += "attention_split: context_then_new\n";
  text += "kv: {block_size: " + std::to_string(block_size) + "}\n";
  text += "layers: " + std::to_string(layers) + "\ndtype: " + dtype + "\n";
  text += "lse: {base: " + lse_base + ", dtype: " + lse_dtype + "}\n";
  text += "data: {kind: random, seed: " + std::to_string(data_seed) + "}\n";
  if (kv_gather_rows > 0) {
    text += "kv_gather: {tokens: " + std::to_string(kv_gather_rows * world_size) +
            ", dim: 16, dtype: " + kv_gather_dtype + "}\n";
  }
  text += "strategy: [ag_rs, ag_ar, a2a, direct]\nquery: " + query +
          "\ncomm_stream: " + (same_stream ? "same" : "separate") +
          "\na2a_layout: " + (split_layout ? "split" : "interleaved") +
          "\nreduce_dtype: " + (reduce_fp32 ? "fp32" : "same") + "\nworkspace: " + workspace + "\n";
  text += "graph: {ubatches: " + std::to_string(ubatches) +
          ", pool: " + (shared_pool ? "shared" : "private") +
          ", capture_sizes: " + list(capture_sizes) + "}\nbatches:\n";
  for (std::size_t b = 0; b < batches.size(); ++b) {
    std::vector<int> lengths;
    std::vector<int> boundaries = {0};
    for (const RandomRequest& request : batches[b]) {
      lengths.push_back(request.length);
      boundaries.push_back(boundaries.back() + request.query_len);
    }
    text += "  b" + std::to_string(b) + ": {seq_lens: " + list(lengths) +
            ", query_start_loc: " + list(boundaries) + "}\n";
  }
  text += "steps:\n  - allocate: {name: mark, bytes: 300}\n  - canary: mark\n";
  if (workspace == "growable")
    text += "  - grow: {workspace: " + std::to_string(max_rows()) + "}\n";
  text += "  - capture: all\n  - stub_attention: " + stub + "\n";
  std::size_t index = 0;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t b = 0; b < batches.size(); ++b, ++index) {
      const int style = styles.empty() ? 0 : styles[index % styles.size()];
      text += replay_text(*this, "b" + std::to_string(b), style);
    }
  }
  return text + "  - eager: b0\n  - check_canary: mark\n";
}

std::vector<RandomScenario> simpler(const RandomScenario& scenario) {
  std::vector<RandomScenario> all;
  const auto with = [&](const auto& change) {
    RandomScenario candidate = scenario;
    change(candidate);
    if (candidate.yaml() != scenario.yaml()) all.push_back(std::move(candidate));
  };
  for (std::size_t b = 0; b < scenario.batches.size() && scenario.batches.size() > 1; ++b) {
    with([&](auto& s) { s.batches.erase(s.batches.begin() + static_cast<std::ptrdiff_t>(b)); });
  }
  for (std::size_t b = 0; b < scenario.batches.size(); ++b) {
    for (std::size_t r = 0; r < scenario.batches[b].size(); ++r) {
      with([&](auto& s) {
        if (s.batches[b].size() > 1) {
          s.batches[b].erase(s.batches[b].begin() + static_cast<std::ptrdiff_t>(r));
        }
      });
      with([&](auto& s) {
        RandomRequest& request = s.batches[b][r];
        if (request.length > request.query_len) {
          request.length = std::max(request.query_len, request.length / 2);
        }
      });
    }
  }
  with([](auto& s) { s.layers = 1; });
  with([](auto& s) { s.context_then_new = false; });
  with([](auto& s) { s.num_splits = 0; });
  with([](auto& s) { s.tensor_parallel_factor = 1; });
  with([](auto& s) { s.kv_head_choice = std::min(s.kv_head_choice, 0); });
  with([](auto& s) {
    s.kv_head_choice = -1;
    s.context_then_new = false;
  });
  with([](auto& s) { s.ubatches = 1; });
  with([](auto& s) { s.interleave = 1; });
  with([](auto& s) { s.heads_per_rank = 1; });
  with([](auto& s) { s.head_dim = 8; });
  with([](auto& s) { s.stub = "exact"; });
  with([](auto& s) { s.query = "all_gather"; });
  with([](auto& s) { s.kv_gather_rows = std::max(0, s.kv_gather_rows - 1); });
  with([](auto& s) { s.workspace = "graph_pool"; });
  with([](auto& s) { s.shared_pool = false; });
  with([](auto& s) { s.styles.clear(); });
  with([](auto& s) {
    if (!s.styles.empty()) s.styles.pop_back();
  });
  with([](auto& s) { s.reduce_fp32 = false; });
  with([](auto& s) { s.split_layout = false; });
  with([](auto& s) { s.dtype = "fp32"; });
  with([](auto& s) { s.lse_dtype = "fp32"; });
  with([](auto& s) { s.lse_base = "e"; });
  with([](auto& s) { s.world_size = std::max(1, s.world_size - 1); });
  return all;
}

}  // namespace dcp
