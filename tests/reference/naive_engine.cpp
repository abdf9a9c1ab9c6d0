#include "naive_engine.hpp"

#include <cmath>
#include <limits>

#include "core/data.hpp"

namespace dcp {

namespace {

constexpr float kEmpty = -std::numeric_limits<float>::infinity();

std::vector<std::int64_t> boundaries_of(const Batch& batch) {
  if (batch.query_start_loc) return *batch.query_start_loc;
  std::vector<std::int64_t> boundaries = {0};
  for (std::size_t i = 0; i < batch.seq_lens.size(); ++i) boundaries.push_back(boundaries[i] + 1);
  return boundaries;
}

int owner(const Scenario& scenario, const Batch& batch, std::size_t request, std::int64_t token) {
  if (!batch.local_seq_lens) {
    return static_cast<int>(token / scenario.interleave % scenario.world_size);
  }
  int rank = 0;
  for (std::int64_t end = (*batch.local_seq_lens)[0][request]; end <= token;) {
    end += (*batch.local_seq_lens)[static_cast<std::size_t>(++rank)][request];
  }
  return rank;
}

struct Engine {
  const Scenario& scenario;
  const Batch& batch;
  const NaiveRun& run;
  InputData data{scenario};
  std::size_t heads = static_cast<std::size_t>(scenario.group_num_heads());
  std::size_t d = static_cast<std::size_t>(scenario.model.v_head_dim());
  std::size_t dq = static_cast<std::size_t>(scenario.model.qk_head_dim());
  double log_base = scenario.lse.base == LseBase::kTwo ? std::log(2.0) : 1.0;

  // Attention of one row on all ranks: keys outermost, running sums of weights and of values.
  void attend(NaiveStep& step, std::size_t row, std::size_t request, std::int64_t num_keys) const {
    const auto n = static_cast<std::size_t>(scenario.world_size);
    std::vector<double> sum(n * heads, 0.0);
    std::vector<double> out(n * heads * d, 0.0);
    std::vector<float> key(dq);
    for (std::int64_t token = 0; token < num_keys; ++token) {
      if (request == 0 && run.lost_token == token) continue;
      const int rank = owner(scenario, batch, request, token);
      data.key(run.layer, static_cast<int>(request), token, rank, key);
      for (std::size_t head = 0; head < heads; ++head) {
        const float* query = &step.query[(row * heads + head) * dq];
        double score = 0;
        for (std::size_t i = 0; i < dq; ++i) score += double{query[i]} * key[i];
        const double weight = std::exp(score * scenario.model.softmax_scale);
        const std::size_t index = static_cast<std::size_t>(rank) * heads + head;
        sum[index] += weight;
        for (std::size_t i = 0; i < d; ++i) out[index * d + i] += weight * key[i];
      }
    }
    for (std::size_t index = 0; index < sum.size(); ++index) {
      if (sum[index] == 0) continue;
      NaiveStep::Rank& rank = step.ranks[index / heads];
      const std::size_t at = row * heads + index % heads;
      rank.partial_lse[at] =
          round_to(scenario.lse.dtype, static_cast<float>(std::log(sum[index]) / log_base));
      for (std::size_t i = 0; i < d; ++i) {
        const double value = out[index * d + i] / sum[index];
        rank.partial_out[at * d + i] = round_to(scenario.dtype, static_cast<float>(value));
      }
    }
  }

  // Combined out [D] and lse of one row and head, in fp32.
  float combine(const NaiveStep& step, std::size_t at, std::vector<float>& out) const {
    std::vector<float> lse;
    for (const NaiveStep::Rank& rank : step.ranks) lse.push_back(rank.partial_lse[at]);
    if (run.swapped_lse) std::swap(lse[0], lse[1]);
    const float log_of_base =
        run.combine_base.value_or(scenario.lse.base) == LseBase::kTwo ? std::log(2.0f) : 1.0f;
    float max = kEmpty;
    for (const float l : lse) max = std::max(max, l);
    out.assign(d, 0.0f);
    if (max == kEmpty) return kEmpty;
    float sum = 0;
    for (const float l : lse) sum += std::exp((l - max) * log_of_base);
    for (std::size_t rank = 0; rank < lse.size(); ++rank) {
      const float weight = std::exp((lse[rank] - max) * log_of_base) / sum;
      if (weight == 0) continue;
      for (std::size_t i = 0; i < d; ++i) {
        const float term = weight * step.ranks[rank].partial_out[at * d + i];
        out[i] = run.rounded_terms
                     ? round_to(scenario.dtype, out[i] + round_to(scenario.dtype, term))
                     : out[i] + term;
      }
    }
    for (float& value : out) value = round_to(scenario.dtype, value);
    return max + std::log(sum) / log_of_base;
  }

  void combine_all(NaiveStep& step, std::size_t num_rows) const {
    std::vector<float> out;
    for (std::size_t row = 0; row < num_rows; ++row) {
      for (std::size_t head = 0; head < heads; ++head) {
        const float lse = combine(step, row * heads + head, out);
        for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
          if (!run.all_heads && head / static_cast<std::size_t>(step.heads_per_rank) != rank) {
            continue;
          }
          step.ranks[rank].lse.push_back(lse);
          step.ranks[rank].out.insert(step.ranks[rank].out.end(), out.begin(), out.end());
        }
      }
    }
  }
};

}  // namespace

Scenario small_scenario(int world_size, DataKind kind) {
  Scenario scenario;
  scenario.world_size = world_size;
  scenario.tensor_parallel_size = world_size;
  scenario.model.num_heads = 4;
  scenario.model.kv_lora_rank = 16;
  scenario.model.rope_dim = 8;
  scenario.model.softmax_scale = 0.3;
  scenario.data.kind = kind;
  return scenario;
}

LayerObservation NaiveStep::observation() const {
  LayerObservation seen{.layer = layer, .query = query, .ranks = {}};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool all_heads = ranks[rank].lse.size() == ranks[rank].partial_lse.size();
    const int heads = all_heads ? heads_per_rank * static_cast<int>(ranks.size()) : heads_per_rank;
    seen.ranks.push_back({.partial_out = ranks[rank].partial_out,
                          .partial_lse = ranks[rank].partial_lse,
                          .out = ranks[rank].out,
                          .lse = ranks[rank].lse,
                          .first_out_head = all_heads ? 0 : static_cast<int>(rank) * heads,
                          .num_out_heads = heads});
  }
  return seen;
}

NaiveStep run_naive(const Scenario& scenario, const Batch& batch, const NaiveRun& run) {
  const Engine engine{scenario, batch, run};
  const std::vector<std::int64_t> boundaries = boundaries_of(batch);
  const auto num_rows = static_cast<std::size_t>(run.num_rows ? run.num_rows : boundaries.back());
  NaiveStep step;
  step.layer = run.layer;
  step.heads_per_rank = static_cast<int>(engine.heads) / scenario.world_size;
  step.query.assign(num_rows * engine.heads * engine.dq, 0.0f);
  step.ranks.resize(static_cast<std::size_t>(scenario.world_size));
  for (NaiveStep::Rank& rank : step.ranks) {
    rank.partial_out.assign(num_rows * engine.heads * engine.d,
                            std::numeric_limits<float>::quiet_NaN());
    rank.partial_lse.assign(num_rows * engine.heads, kEmpty);
  }
  for (std::size_t request = 0; request < batch.seq_lens.size(); ++request) {
    for (std::int64_t row = boundaries[request]; row < boundaries[request + 1]; ++row) {
      const std::int64_t position = batch.seq_lens[request] - boundaries[request + 1] + row;
      for (std::size_t head = 0; head < engine.heads; ++head) {
        const std::size_t at = static_cast<std::size_t>(row) * engine.heads + head;
        engine.data.query(static_cast<int>(request), position, static_cast<int>(head),
                          std::span(step.query).subspan(at * engine.dq, engine.dq));
      }
      engine.attend(step, static_cast<std::size_t>(row), request, position + 1);
    }
  }
  engine.combine_all(step, num_rows);
  return step;
}

}  // namespace dcp
