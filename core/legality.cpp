#include "core/legality.hpp"

#include <algorithm>

namespace dcp {

namespace {

std::string text_of(const char* name, std::int64_t value) {
  return std::string(name) + " " + std::to_string(value);
}

std::string heads_text(const Scenario& s) {
  return text_of("num_heads", s.model.num_heads) + ", " +
         (s.model.attention == Attention::kGqa
              ? text_of("num_kv_heads", s.model.num_kv_heads) + ", "
              : std::string()) +
         text_of("tensor_parallel_size", s.tensor_parallel_size) + ", " +
         text_of("world_size", s.world_size);
}

std::string pages_text(const Scenario& s) {
  return text_of("kv.block_size", s.kv.block_size) + ", " + text_of("interleave", s.interleave);
}

bool has_multi_token_request(const Batch& batch) {
  if (!batch.query_start_loc) return false;
  const auto& starts = *batch.query_start_loc;
  return std::adjacent_find(starts.begin(), starts.end(), [](std::int64_t a, std::int64_t b) {
           return b - a > 1;
         }) != starts.end();
}

bool is_gqa(const Scenario& s) { return s.model.attention == Attention::kGqa; }
bool is_sharded_gqa(const Scenario& s) { return is_gqa(s) && s.world_size > 1; }
bool always(const Scenario&) { return true; }

struct Rule {
  std::string_view rule;
  bool (*applies)(const Scenario& scenario);
  bool (*holds)(const Scenario& scenario);
  std::string (*numbers)(const Scenario& scenario);
  std::string_view reason;
};

constexpr Rule kRules[] = {
    {"num_heads % tensor_parallel_size == 0", always,
     [](const Scenario& s) { return s.model.num_heads % s.tensor_parallel_size == 0; }, heads_text,
     "each tensor-parallel rank computes as many query heads"},
    {"tensor_parallel_size % world_size == 0", always,
     [](const Scenario& s) { return s.tensor_parallel_size % s.world_size == 0; }, heads_text,
     "the DCP groups are cut out of the tensor-parallel group and add no ranks; with MLA, which "
     "has "
     "one KV head, this is the only limit"},
    {"num_kv_heads % tensor_parallel_size == 0 or tensor_parallel_size % num_kv_heads == 0", is_gqa,
     [](const Scenario& s) {
       return s.model.num_kv_heads % s.tensor_parallel_size == 0 ||
              s.tensor_parallel_size % s.model.num_kv_heads == 0;
     },
     heads_text, "KV heads are shared out over the tensor-parallel ranks, or each is replicated"},
    {"tensor_parallel_size > num_kv_heads", is_sharded_gqa,
     [](const Scenario& s) { return s.tensor_parallel_size > s.model.num_kv_heads; }, heads_text,
     "without replicas of a KV head there is no copy whose tokens could be spread"},
    {"world_size <= tensor_parallel_size / num_kv_heads", is_sharded_gqa,
     [](const Scenario& s) {
       return s.world_size <= s.tensor_parallel_size / s.model.num_kv_heads;
     },
     heads_text,
     "a KV head has that many replicas, and a DCP group spreads the tokens of one head"},
    {"num_heads / num_kv_heads % world_size == 0", is_sharded_gqa,
     [](const Scenario& s) { return s.model.num_heads / s.model.num_kv_heads % s.world_size == 0; },
     heads_text, "the query heads of a KV head are divided among the ranks after the combine"},
    {"kv.block_size % interleave == 0", always,
     [](const Scenario& s) { return s.kv.block_size % s.interleave == 0; }, pages_text,
     "a page holds whole runs of consecutive tokens; a wider interleave than a page is refused "
     "too"},
    {"interleave == 1 with several query tokens",
     [](const Scenario& s) {
       return std::any_of(s.batches.begin(), s.batches.end(), has_multi_token_request);
     },
     [](const Scenario& s) { return s.interleave == 1; }, pages_text,
     "speculative tokens with a wider interleave need an attention backend that says it can"},
    {"world_size > 1 for a2a",
     [](const Scenario& s) {
       return std::count(s.strategies.begin(), s.strategies.end(), "a2a") > 0;
     },
     [](const Scenario& s) { return s.world_size > 1; }, heads_text,
     "a group of one rank has nobody to exchange with"},
};

}  // namespace

std::vector<LegalityVerdict> vllm_legality(const Scenario& scenario) {
  std::vector<LegalityVerdict> verdicts;
  for (const Rule& rule : kRules) {
    if (!rule.applies(scenario)) continue;
    verdicts.push_back({.rule = rule.rule,
                        .holds = rule.holds(scenario),
                        .why = rule.numbers(scenario) + ": " + std::string(rule.reason)});
  }
  return verdicts;
}

}  // namespace dcp
