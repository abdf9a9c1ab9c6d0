// Ranks that make direct exchanges, one after the other, without an engine around them: one row of
// one head for each rank, with values that tell the exchange and the sender.
#pragma once

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "strategies/direct_exchange.hpp"
#include "strategies/symmetric_buffers.hpp"

namespace dcp::test {

struct ExchangeCase {
  int world_size = 2;
  int num_exchanges = 3;
  std::uint32_t last_epoch = 0;  // before the first exchange
  MemoryOrder order = {};
  std::set<int> empty_ranks = {};  // whose rows count nothing
};

struct ExchangeOutcome {
  std::string failure;       // kind, "" where the ranks got through
  std::set<int> wrong = {};  // exchanges that some rank combined wrongly

  bool is_right() const { return failure.empty() && wrong.empty(); }

  // "right", a kind of failure, or "wrong in 0 2".
  std::string text() const {
    if (!failure.empty()) return failure;
    std::string text = wrong.empty() ? "right" : "wrong in";
    for (const int exchange : wrong) text += " " + std::to_string(exchange);
    return text;
  }
};

template <class Ops = DirectOps>
class ExchangeWorld {
 public:
  explicit ExchangeWorld(const ExchangeCase& asked)
      : case_(asked), world_(asked.world_size, 0), ranks_(asked.world_size) {
    world_.keep(asked.order);
    plan_direct_exchange(shape(0), plan_);
    world_.each_rank([&](Rank& rank) { allocate(rank); });
    const auto symmetric = allocate_symmetric(world_, plan_);
    std::vector<const BufferSet*> sets;
    for (const BufferSet& set : symmetric) sets.push_back(&set);
    world_.each_rank([&](Rank& rank) { begin(rank, sets); });
    world_.each_rank([&](Rank& rank) { enqueue(rank); });
  }

  // Once.
  ExchangeOutcome run(SchedulePolicy& policy) {
    world_.follow(&policy);
    ExchangeOutcome outcome;
    try {
      world_.drain();
    } catch (const Failure& failure) {
      outcome.failure = failure.kind();
    }
    world_.follow(nullptr);
    if (outcome.failure.empty()) {
      for (int e = 0; e < case_.num_exchanges; ++e) {
        if (!is_right(e)) outcome.wrong.insert(e);
      }
    }
    return outcome;
  }

  // Calls with every buffer of every rank that an op writes.
  template <class Visit>
  void each_written_buffer(Visit visit) const {
    for (const RankState& rank : ranks_) {
      for (const auto& [name, buffer] : rank.buffers.all()) {
        if (!name.starts_with("partial_")) visit(buffer);
      }
    }
  }

 private:
  static constexpr int kDim = 8;
  struct RankState {
    BufferSet buffers;
    Stream stream;
  };

  StepShape shape(int rank) const {
    return {.world_size = case_.world_size,
            .rank = rank,
            .layers = 1,
            .num_tokens = 1,
            .max_num_tokens = 1,
            .num_heads = case_.world_size,
            .padded_num_heads = case_.world_size,
            .heads_per_rank = 1,
            .qk_head_dim = kDim,
            .head_dim = kDim,
            .dtype = DType::kFp32,
            .lse = {},
            .reduce_dtype = DType::kFp32,
            .a2a_layout = A2aLayout::kSplit,
            .return_lse = false,
            .max_exchange_tokens = 1};
  }

  float value(int exchange, int rank, int head) const {
    return static_cast<float>(100 * exchange + 10 * rank + head + 1);
  }

  void allocate(Rank& rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank.index)];
    state.stream = rank.runtime.make_stream("compute");
    const auto floats = [&](std::string_view name, int count) {
      const auto size = static_cast<std::size_t>(count) * sizeof(float);
      state.buffers.add(name, rank.runtime.allocate(name, size));
    };
    floats("partial_out", case_.num_exchanges * case_.world_size * kDim);
    floats("partial_lse", case_.num_exchanges * case_.world_size);
    floats("out", case_.num_exchanges * kDim);
    for (const BufferSpec& spec : plan_.specs()) {
      if (spec.lifetime == Lifetime::kSymmetric) continue;
      state.buffers.add(spec.name, rank.runtime.allocate(spec.name, spec.size_bytes));
    }
  }

  void begin(Rank& rank, const std::vector<const BufferSet*>& sets) {
    BufferSet& buffers = ranks_[static_cast<std::size_t>(rank.index)].buffers;
    add_symmetric(plan_, rank.index, sets, buffers);
    for (const BufferSpec& spec : plan_.specs()) {
      const auto words = content_at(spec, case_.last_epoch, 2);
      if (words.empty()) continue;
      rank.runtime.write(buffers.at(spec.name), words.data(), spec.size_bytes);
    }
    auto* out = buffers.at<float>("partial_out");
    auto* lse = buffers.at<float>("partial_lse");
    for (int e = 0; e < case_.num_exchanges; ++e) {
      for (int head = 0; head < case_.world_size; ++head) {
        for (int i = 0; i < kDim; ++i) *out++ = value(e, rank.index, head);
        *lse++ = case_.empty_ranks.count(rank.index) > 0 ? -INFINITY : 0.0f;
      }
    }
  }

  void enqueue(Rank& rank) {
    const RankState& state = ranks_[static_cast<std::size_t>(rank.index)];
    const Lane lane{.rank = rank,
                    .collectives = *rank.communicators[0],
                    .compute = state.stream,
                    .comm = state.stream,
                    .forked = {},
                    .joined = {}};
    const BufferSet& buffers = state.buffers;
    for (int e = 0; e < case_.num_exchanges; ++e) {
      const int heads = case_.world_size;
      enqueue_direct_exchange<Ops>(
          lane, shape(rank.index), buffers,
          {.out = {buffers.at<float>("partial_out") + e * heads * kDim, token_major(heads, kDim),
                   DType::kFp32},
           .lse = {buffers.at<float>("partial_lse") + e * heads, token_major(heads, 1),
                   DType::kFp32}},
          {.out = {buffers.at<float>("out") + e * kDim, token_major(1, kDim), DType::kFp32},
           .lse = nullptr});
    }
  }

  // The mean over the ranks that count.
  bool is_right(int exchange) const {
    for (int rank = 0; rank < case_.world_size; ++rank) {
      double sum = 0;
      int count = 0;
      for (int sender = 0; sender < case_.world_size; ++sender) {
        if (case_.empty_ranks.count(sender) > 0) continue;
        sum += value(exchange, sender, rank);
        ++count;
      }
      const auto* out = ranks_[static_cast<std::size_t>(rank)].buffers.template at<float>("out");
      for (int i = 0; i < kDim; ++i) {
        const double error = std::abs(out[exchange * kDim + i] - sum / count);
        if (!(error < 1e-3)) return false;  // NaN is an error too
      }
    }
    return true;
  }

  ExchangeCase case_;
  BufferPlan plan_;
  HostWorld world_;
  std::vector<RankState> ranks_;
};

}  // namespace dcp::test
