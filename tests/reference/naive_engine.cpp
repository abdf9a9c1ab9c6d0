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

// Running sums of one row and head over keys.
struct State {
  double sum = 0;
  std::vector<double> out;
};

struct Engine {
  const Scenario& scenario;
  const Batch& batch;
  const NaiveRun& run;
  InputData data{scenario};
  std::size_t heads = static_cast<std::size_t>(scenario.group_num_heads());
  std::size_t kv_heads = static_cast<std::size_t>(scenario.group_num_kv_heads());
  std::size_t d = static_cast<std::size_t>(scenario.model.v_head_dim());
  std::size_t dq = static_cast<std::size_t>(scenario.model.qk_head_dim());
  bool is_gqa = scenario.model.attention == Attention::kGqa;
  bool splits = scenario.attention_split == AttentionSplit::kContextThenNew;
  double log_base = scenario.lse.base == LseBase::kTwo ? std::log(2.0) : 1.0;

  // Adds one token's key and value to the states of a row's heads.
  void add_token(const float* queries, const std::vector<float>& kv, State* states) const {
    for (std::size_t head = 0; head < heads; ++head) {
      std::size_t kv_head = head / (heads / kv_heads);
      if (run.swapped_kv_heads) kv_head = kv_heads - 1 - kv_head;
      const float* key = &kv[kv_head * dq];
      const float* value = is_gqa ? &kv[(kv_heads + kv_head) * d] : key;
      double score = 0;
      for (std::size_t i = 0; i < dq; ++i) score += double{queries[head * dq + i]} * key[i];
      const double weight = std::exp(score * scenario.model.softmax_scale);
      states[head].sum += weight;
      states[head].out.resize(d);
      for (std::size_t i = 0; i < d; ++i) states[head].out[i] += weight * value[i];
    }
  }

  // Writes a state that has keys to [D] and [1].
  void store(const State& state, DType lse_dtype, float* out, float* lse) const {
    if (state.sum == 0) return;
    *lse = round_to(lse_dtype, static_cast<float>(std::log(state.sum) / log_base));
    for (std::size_t i = 0; i < d; ++i) {
      out[i] = round_to(scenario.dtype, static_cast<float>(state.out[i] / state.sum));
    }
  }

  // Attention of one row: over what each rank owns of tokens 0 .. end - 1 and, apart, over the new
  // tokens, whose state goes to [H, D] and [H].
  void attend(NaiveStep& step, std::size_t row, std::size_t request, std::int64_t position,
              std::vector<float>& new_out, std::vector<float>& new_lse) const {
    const auto n = static_cast<std::size_t>(scenario.world_size);
    const auto boundaries = boundaries_of(batch);
    const std::int64_t length = batch.seq_lens[request];
    const std::int64_t context =
        std::max<std::int64_t>(0, length - (boundaries[request + 1] - boundaries[request]));
    std::vector<State> states(n * heads);
    std::vector<State> fresh(heads);
    std::vector<float> kv(static_cast<std::size_t>(scenario.kv_row_dim()));
    const std::int64_t end = run.non_causal_new_tokens && length > 0 ? length : position + 1;
    for (std::int64_t token = 0; token < end; ++token) {
      if (request == 0 && run.lost_token == token) continue;
      const int rank = owner(scenario, batch, request, token);
      data.kv_row(run.layer, static_cast<int>(request), token, rank, kv);
      State* to = splits && token >= context ? fresh.data()
                                             : &states[static_cast<std::size_t>(rank) * heads];
      add_token(&step.query[row * heads * dq], kv, to);
    }
    for (std::size_t index = 0; index < states.size(); ++index) {
      NaiveStep::Rank& rank = step.ranks[index / heads];
      const std::size_t at = row * heads + index % heads;
      store(states[index], scenario.lse.dtype, &rank.partial_out[at * d], &rank.partial_lse[at]);
    }
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t at = row * heads + head;
      store(fresh[head], DType::kFp32, &new_out[at * d], &new_lse[at]);
    }
  }

  // Combined out [D] and lse of states of one row and head, in fp32.
  float combine(const std::vector<float>& lse, const std::vector<const float*>& outs,
                bool rounded_terms, std::vector<float>& out) const {
    const float log_of_base =
        run.combine_base.value_or(scenario.lse.base) == LseBase::kTwo ? std::log(2.0f) : 1.0f;
    float max = kEmpty;
    for (const float l : lse) max = std::max(max, l);
    out.assign(d, 0.0f);
    if (max == kEmpty) return kEmpty;
    float sum = 0;
    for (const float l : lse) sum += std::exp((l - max) * log_of_base);
    for (std::size_t state = 0; state < lse.size(); ++state) {
      const float weight = std::exp((lse[state] - max) * log_of_base) / sum;
      if (weight == 0) continue;
      for (std::size_t i = 0; i < d; ++i) {
        const float term = weight * outs[state][i];
        out[i] = rounded_terms ? round_to(scenario.dtype, out[i] + round_to(scenario.dtype, term))
                               : out[i] + term;
      }
    }
    for (float& value : out) value = round_to(scenario.dtype, value);
    return max + std::log(sum) / log_of_base;
  }

  // The combine of the ranks' partials of one row and head.
  float combine_ranks(const NaiveStep& step, std::size_t at, std::vector<float>& out) const {
    std::vector<float> lse;
    std::vector<const float*> outs;
    for (const NaiveStep::Rank& rank : step.ranks) {
      lse.push_back(rank.partial_lse[at]);
      outs.push_back(&rank.partial_out[at * d]);
    }
    if (run.swapped_lse) std::swap(lse[0], lse[1]);
    return combine(lse, outs, run.rounded_terms, out);
  }

  void combine_all(NaiveStep& step, std::size_t num_rows, const std::vector<float>& new_out,
                   const std::vector<float>& new_lse) const {
    std::vector<float> out, merged;
    const auto append = [](std::vector<float>& to, const float* from, std::size_t count) {
      to.insert(to.end(), from, from + count);
    };
    for (std::size_t at = 0; at < num_rows * heads; ++at) {
      const float lse = combine_ranks(step, at, out);
      for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
        NaiveStep::Rank& to = step.ranks[rank];
        const std::size_t owner_rank = at % heads / static_cast<std::size_t>(step.heads_per_rank);
        if (!run.all_heads && owner_rank != rank) continue;
        if (!splits) {
          to.lse.push_back(lse);
          append(to.out, out.data(), d);
          continue;
        }
        to.context_lse.push_back(lse);
        append(to.context_out, out.data(), d);
        to.new_lse.push_back(new_lse[at]);
        append(to.new_out, &new_out[at * d], d);
        to.lse.push_back(
            combine({lse, new_lse[at]}, {out.data(), &new_out[at * d]}, false, merged));
        append(to.out, merged.data(), d);
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

Scenario small_gqa_scenario(int world_size, DataKind kind) {
  Scenario scenario = small_scenario(world_size, kind);
  scenario.model = {};
  scenario.model.attention = Attention::kGqa;
  scenario.model.num_heads = 8;
  scenario.model.num_kv_heads = 4;
  scenario.model.head_dim = 16;
  scenario.model.softmax_scale = 0.3;
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
                          .num_out_heads = heads,
                          .context_out = ranks[rank].context_out,
                          .context_lse = ranks[rank].context_lse,
                          .new_out = ranks[rank].new_out,
                          .new_lse = ranks[rank].new_lse});
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
  std::vector<float> new_out(num_rows * engine.heads * engine.d,
                             std::numeric_limits<float>::quiet_NaN());
  std::vector<float> new_lse(num_rows * engine.heads, kEmpty);
  for (std::size_t request = 0; request < batch.seq_lens.size(); ++request) {
    for (std::int64_t row = boundaries[request]; row < boundaries[request + 1]; ++row) {
      const std::int64_t position = batch.seq_lens[request] - boundaries[request + 1] + row;
      for (std::size_t head = 0; head < engine.heads; ++head) {
        const std::size_t at = static_cast<std::size_t>(row) * engine.heads + head;
        engine.data.query(static_cast<int>(request), position, static_cast<int>(head),
                          std::span(step.query).subspan(at * engine.dq, engine.dq));
      }
      engine.attend(step, static_cast<std::size_t>(row), request, position, new_out, new_lse);
    }
  }
  engine.combine_all(step, num_rows, new_out, new_lse);
  return step;
}

}  // namespace dcp
