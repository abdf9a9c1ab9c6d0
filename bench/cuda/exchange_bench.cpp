#include "bench/exchange_bench.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <random>

#include "comm/make_world.hpp"
#include "runtime/capture_guard.hpp"
#include "strategies/registry.hpp"
#include "strategies/symmetric_buffers.hpp"

namespace dcp {

namespace {

constexpr int kCombinesPerGraph = 100;
// Of a round: so many that what the host adds at both ends is small beside them.
constexpr double kRoundUs = 8000;
constexpr int kMinLaunches = 5;
constexpr int kMaxLaunches = 20;
constexpr int kRounds = 5;

StepShape shape_of(const ExchangeCase& test, const ExchangeForm& form, int rank) {
  return {.world_size = test.world_size,
          .rank = rank,
          .layers = 1,
          .num_tokens = test.num_tokens,
          .max_num_tokens = test.num_tokens,
          .num_heads = test.num_heads,
          .padded_num_heads = test.num_heads,
          .heads_per_rank = test.num_heads / test.world_size,
          .qk_head_dim = test.head_dim,
          .head_dim = test.head_dim,
          .dtype = DType::kBf16,
          .lse = {},
          .reduce_dtype = DType::kBf16,
          .a2a_layout = form.a2a_layout,
          .return_lse = true,
          .direct = {.form = form.direct_form},
          .max_exchange_tokens = test.num_tokens};
}

Buffer filled(Runtime& runtime, std::string_view name, const std::vector<std::byte>& bytes) {
  const Buffer buffer = runtime.allocate(name, bytes.size());
  runtime.write(buffer.data, bytes.data(), bytes.size());
  return buffer;
}

std::vector<std::byte> random_elements(std::int64_t count, DType dtype, int seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_bytes(dtype));
  std::minstd_rand random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(bytes.data(), dtype, static_cast<std::size_t>(i), normal(random));
  }
  return bytes;
}

std::vector<std::byte> integers(std::int64_t count, const auto& value_of) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(std::int32_t));
  auto* values = reinterpret_cast<std::int32_t*>(bytes.data());
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>(value_of(i));
  return bytes;
}

class ExchangeBench {
 public:
  ExchangeBench(const ExchangeCase& test, const ExchangeForm& form)
      : test_(test),
        form_(form),
        strategy_(*find_strategy(form.strategy)),
        world_(make_world({.backend = {.backend = Backend::kCuda}, .world_size = test.world_size})),
        ranks_(static_cast<std::size_t>(test.world_size)) {
    BufferPlan plan;
    strategy_.plan(shape_of(test, form, 0), plan);
    symmetric_ = allocate_symmetric(*world_, plan);
    world_->each_rank([&](Rank& rank) { prepare(rank); });
    world_->drain();
  }

  ExchangeRecord measure(std::string label) {
    launch(1);
    const int launches =
        std::clamp(static_cast<int>(kRoundUs / launch(1)), kMinLaunches, kMaxLaunches);
    std::array<double, kRounds> rounds{};
    for (double& us : rounds) us = launch(launches) / (launches * kCombinesPerGraph);
    std::sort(rounds.begin(), rounds.end());
    return {.label = std::move(label),
            .num_nodes = num_nodes_,
            .time_us = rounds[kRounds / 2],
            .sent_bytes = strategy_.egress_bytes(shape_of(test_, form_, 0))};
  }

 private:
  struct RankState {
    Stream stream;
    GraphExec exec;
  };

  BufferSet buffers_of(Rank& rank, const BufferPlan& plan) {
    BufferSet set;
    for (const BufferSpec& spec : plan.specs()) {
      if (spec.lifetime == Lifetime::kSymmetric) continue;
      set.add(spec.name, rank.runtime.allocate(spec.name, spec.size_bytes));
    }
    std::vector<const BufferSet*> all;
    for (const BufferSet& each : symmetric_) all.push_back(&each);
    add_symmetric(plan, rank.index, all, set);
    for (const BufferSpec& spec : plan.specs()) {
      if (spec.lifetime != Lifetime::kSymmetric) continue;
      const auto words = content_at(spec, 0, static_cast<std::uint32_t>(DirectSpec{}.slots));
      if (!words.empty()) rank.runtime.write(set.at(spec.name), words.data(), spec.size_bytes);
    }
    return set;
  }

  void prepare(Rank& rank) {
    const StepShape shape = shape_of(test_, form_, rank.index);
    const std::int64_t rows = shape.num_tokens * shape.num_heads;
    Runtime& runtime = rank.runtime;
    BufferPlan plan;
    strategy_.plan(shape, plan);
    const BufferSet buffers = buffers_of(rank, plan);
    const Buffer out = filled(runtime, "partial_out",
                              random_elements(rows * shape.head_dim, shape.dtype, rank.index));
    const Buffer lse =
        filled(runtime, "partial_lse", random_elements(rows, DType::kFp32, rank.index + 64));
    const Buffer empty_ranks =
        filled(runtime, "empty_ranks",
               integers(2 * shape.num_tokens, [](std::int64_t) { return 0; }));  // no rank
    const int heads = strategy_.keeps_all_heads() ? shape.num_heads : shape.heads_per_rank;
    const Buffer combined = runtime.allocate(
        "out", static_cast<std::size_t>(shape.num_tokens * heads * shape.head_dim) *
                   size_bytes(shape.dtype));
    const Buffer combined_lse =
        runtime.allocate("lse", static_cast<std::size_t>(shape.num_tokens * heads) * sizeof(float));
    const Partials partials{
        .out = {out.data, token_major(shape.num_heads, shape.head_dim), shape.dtype},
        .lse = {lse.data, token_major(shape.num_heads, 1), DType::kFp32},
        .empty_ranks = reinterpret_cast<const std::uint64_t*>(empty_ranks.data)};
    const Combined result{.out = {combined.data, token_major(heads, shape.head_dim), shape.dtype},
                          .lse = reinterpret_cast<float*>(combined_lse.data)};
    RankState& state = ranks_[static_cast<std::size_t>(rank.index)];
    state.stream = runtime.make_stream("compute");
    const Lane lane{.rank = rank,
                    .collectives = *rank.communicators[0],
                    .compute = state.stream,
                    .comm = state.stream,
                    .forked = runtime.make_event(),
                    .joined = runtime.make_event()};
    CaptureGuard capture(runtime, state.stream, CaptureMode::kThreadLocal);
    for (int i = 0; i < kCombinesPerGraph; ++i) {
      strategy_.enqueue(lane, shape, buffers, partials, result);
    }
    const Graph graph = capture.end();
    state.exec = runtime.instantiate(graph);
    if (rank.index != 0) return;
    const auto nodes = static_cast<double>(runtime.record_of(graph).device.nodes.size());
    num_nodes_ = nodes / kCombinesPerGraph;
  }

  // Host time in us until `times` launches on every rank are done.
  double launch(int times) {
    const auto begin = std::chrono::steady_clock::now();
    // No rank may run ahead: one that fills its queue would keep the others from launching.
    for (int i = 0; i < times; ++i) {
      world_->each_rank([&](Rank& rank) {
        const RankState& state = ranks_[static_cast<std::size_t>(rank.index)];
        rank.runtime.launch(state.exec, state.stream);
      });
    }
    world_->drain();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  const ExchangeCase& test_;
  const ExchangeForm& form_;
  const Strategy& strategy_;
  std::unique_ptr<World> world_;
  std::vector<RankState> ranks_;
  std::vector<BufferSet> symmetric_;
  double num_nodes_ = 0;
};

}  // namespace

void bench_exchanges(const ExchangeBenchOptions& options) {
  for (const ExchangeCase& test : options.cases) {
    for (const ExchangeForm& form : options.forms) {
      std::string label = "exchange-" + form.name + "-N" + std::to_string(test.world_size) + "-H" +
                          std::to_string(test.num_heads) + "-D" + std::to_string(test.head_dim) +
                          "-T" + std::to_string(test.num_tokens);
      if (options.wants(label)) options.report(ExchangeBench(test, form).measure(std::move(label)));
    }
  }
}

}  // namespace dcp
