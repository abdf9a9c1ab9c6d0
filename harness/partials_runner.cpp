#include "harness/partials_runner.hpp"

#include <algorithm>
#include <cassert>
#include <span>

#include "core/poison.hpp"
#include "kernels/batch_metadata.hpp"
#include "runtime/capture_guard.hpp"
#include "strategies/symmetric_buffers.hpp"

namespace dcp {

namespace {

StepShape shape_of(const PartialsCase& partials, const PartialsOptions& options, int rank) {
  return {.world_size = partials.world_size,
          .rank = rank,
          .layers = 1,
          .num_tokens = partials.num_tokens,
          .max_num_tokens = partials.num_tokens,
          .num_heads = partials.num_heads,
          .padded_num_heads = partials.num_heads,
          .heads_per_rank = partials.heads_per_rank(),
          .qk_head_dim = partials.head_dim,
          .head_dim = partials.head_dim,
          .dtype = partials.dtype,
          .lse = partials.lse,
          .reduce_dtype = options.reduce_dtype,
          .a2a_layout = options.a2a_layout,
          .return_lse = options.return_lse,
          .direct = {.form = options.direct_form},
          .max_exchange_tokens = partials.num_tokens,
          .copies_lse = !is_contiguous_lse({nullptr, partials.lse_strides, partials.lse.dtype},
                                           partials.num_heads)};
}

// [T] by the boundaries and every rank's lengths; they are those of whole requests.
std::vector<std::uint64_t> empty_ranks_of(const PartialsCase& partials) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(partials.num_tokens));
  for (std::size_t rank = 0; rank < partials.ranks.size(); ++rank) {
    const auto& lengths = partials.ranks[rank].seq_lens;
    const BatchMetadata batch{.query_start_loc = partials.query_start_loc->data(),
                              .seq_lens = lengths.data(),
                              .causal_bounds = nullptr,
                              .num_requests = static_cast<std::int32_t>(lengths.size())};
    for (std::size_t row = 0; row < words.size(); ++row) {
      const bool is_empty = row_is_empty(batch, static_cast<std::int64_t>(row));
      words[row] |= std::uint64_t{is_empty} << rank;
    }
  }
  return words;
}

// One rank's device: streams, buffers, and the step on them.
class PartialsStep {
 public:
  PartialsStep(Rank& rank, const Strategy& strategy, const PartialsCase& partials,
               const PartialsOptions& options)
      : strategy_(strategy),
        partials_(partials),
        runtime_(rank.runtime),
        shape_(shape_of(partials, options, rank.index)),
        compute_(runtime_.make_stream("compute")),
        comm_(runtime_.make_stream("comm")),
        forked_(runtime_.make_event()),
        joined_(runtime_.make_event()),
        results_(plan_results()) {
    const BufferPlan inputs = plan_inputs();
    for (const BufferSpec& spec : inputs.specs()) allocate(spec);
    for (const BufferSpec& spec : results_.specs()) {
      if (spec.lifetime != Lifetime::kSymmetric) allocate(spec);
    }
  }

  const BufferPlan& results_plan() const { return results_; }

  // Before the first step: the symmetric buffers of all ranks.
  void add_symmetric(std::span<const BufferSet* const> sets) {
    dcp::add_symmetric(results_, shape_.rank, sets, buffers_);
    for (const BufferSpec& spec : results_.specs()) {
      const auto words = content_at(spec, 0, static_cast<std::uint32_t>(shape_.direct.slots));
      if (!words.empty()) runtime_.write(buffers_.at(spec.name), words.data(), spec.size_bytes);
    }
  }

  void write_inputs() {
    write("partial_out", std::as_bytes(std::span(given().out)));
    write("partial_lse", std::as_bytes(std::span(given().lse)));
    if (!partials_.query_start_loc) return;
    const auto empty_ranks = empty_ranks_of(partials_);
    write("empty_ranks", std::as_bytes(std::span(empty_ranks)));
  }

  void poison_results() {
    for (const BufferSpec& spec : results_.specs()) {
      if (spec.content != Content::kRows) continue;
      std::vector<std::byte> bytes(spec.size_bytes);
      poison(bytes.data(), bytes.size());
      write(spec.name, bytes);
    }
  }

  void enqueue(Rank& rank) {
    const Lane lane{.rank = rank,
                    .collectives = *rank.communicators[0],
                    .compute = compute_,
                    .comm = comm_,
                    .forked = forked_,
                    .joined = joined_};
    strategy_.enqueue(lane, shape_, buffers_, partials_view(), combined_view());
  }

  void capture(Rank& rank) {
    CaptureGuard guard(runtime_, compute_, CaptureMode::kThreadLocal);
    enqueue(rank);
    graph_ = guard.end();
    exec_ = runtime_.instantiate(*graph_);
  }

  void launch() { runtime_.launch(exec_, compute_); }

  RankCombined results() {
    RankCombined results;
    results.out = read("out");
    results.send = read("send");
    results.partial_out = read("partial_out");
    results.partial_lse = read("partial_lse");
    if (const Buffer* lse = buffers_.find("lse")) {
      results.lse.resize(lse->size_bytes / sizeof(float));
      runtime_.read(results.lse.data(), lse->data, lse->size_bytes);
    }
    if (graph_) results.graph = runtime_.record_of(*graph_);
    return results;
  }

  std::size_t egress_bytes() const { return strategy_.egress_bytes(shape_); }

 private:
  const RankPartials& given() const {
    return partials_.ranks[static_cast<std::size_t>(shape_.rank)];
  }

  int num_out_heads() const {
    return strategy_.keeps_all_heads() ? shape_.num_heads : shape_.heads_per_rank;
  }

  BufferPlan plan_inputs() const {
    BufferPlan plan;
    plan.add("partial_out", given().out.size(), Lifetime::kActivation);
    plan.add("partial_lse", given().lse.size(), Lifetime::kActivation);
    if (!partials_.query_start_loc) return plan;
    plan.add("empty_ranks", static_cast<std::size_t>(shape_.num_tokens) * sizeof(std::uint64_t),
             Lifetime::kActivation);
    return plan;
  }

  BufferPlan plan_results() const {
    const auto rows = static_cast<std::size_t>(shape_.num_tokens * num_out_heads());
    BufferPlan plan;
    plan.add("out", rows * shape_.head_dim * size_bytes(shape_.dtype), Lifetime::kActivation);
    if (shape_.return_lse) plan.add("lse", rows * sizeof(float), Lifetime::kActivation);
    strategy_.plan(shape_, plan);
    return plan;
  }

  void allocate(const BufferSpec& spec) {
    buffers_.add(spec.name, runtime_.allocate(spec.name, spec.size_bytes));
  }

  Partials partials_view() const {
    const bool masks = partials_.query_start_loc.has_value();
    return {.out = {buffers_.at("partial_out"), partials_.out_strides, partials_.dtype},
            .lse = {buffers_.at("partial_lse"), partials_.lse_strides, partials_.lse.dtype},
            .empty_ranks = masks ? buffers_.at<std::uint64_t>("empty_ranks") : nullptr};
  }

  Combined combined_view() const {
    return {.out = {.data = buffers_.at("out"),
                    .strides = token_major(num_out_heads(), shape_.head_dim),
                    .dtype = shape_.dtype},
            .lse = shape_.return_lse ? buffers_.at<float>("lse") : nullptr};
  }

  void write(std::string_view name, std::span<const std::byte> bytes) {
    runtime_.write(buffers_.at(name), bytes.data(), bytes.size());
  }

  std::vector<std::byte> read(std::string_view name) const {
    const Buffer* buffer = buffers_.find(name);
    if (buffer == nullptr) return {};
    std::vector<std::byte> bytes(buffer->size_bytes);
    runtime_.read(bytes.data(), buffer->data, bytes.size());
    return bytes;
  }

  const Strategy& strategy_;
  const PartialsCase& partials_;
  Runtime& runtime_;
  StepShape shape_;
  Stream compute_;
  Stream comm_;
  Event forked_;
  Event joined_;
  BufferPlan results_;  // poisoned before each launch
  BufferSet buffers_;
  std::optional<Graph> graph_;
  GraphExec exec_;
};

}  // namespace

float PartialsCase::out_at(int rank, std::int64_t row, int head, int element) const {
  const std::int64_t index = out_strides.offset(row, head) + element * out_strides.element;
  return load_element(ranks[static_cast<std::size_t>(rank)].out.data(), dtype,
                      static_cast<std::size_t>(index));
}

float PartialsCase::lse_at(int rank, std::int64_t row, int head) const {
  return load_element(ranks[static_cast<std::size_t>(rank)].lse.data(), lse.dtype,
                      static_cast<std::size_t>(lse_strides.offset(row, head)));
}

PartialsResult run_partials(const Strategy& strategy, const PartialsCase& partials,
                            const PartialsOptions& options) {
  assert(partials.num_heads % partials.world_size == 0);
  assert(partials.ranks.size() == static_cast<std::size_t>(partials.world_size));
  const std::unique_ptr<World> made = make_world(
      {.backend = options.backend, .world_size = partials.world_size, .seed = options.seed});
  World& world = *made;
  std::vector<std::optional<PartialsStep>> steps(partials.ranks.size());
  world.each_rank([&](Rank& rank) {
    steps[static_cast<std::size_t>(rank.index)].emplace(rank, strategy, partials, options);
  });
  const auto symmetric = allocate_symmetric(world, steps.front()->results_plan());
  std::vector<const BufferSet*> sets;
  for (const BufferSet& set : symmetric) sets.push_back(&set);
  for (auto& step : steps) step->add_symmetric(sets);
  const auto step_of = [&](const Rank& rank) -> PartialsStep& {
    return *steps[static_cast<std::size_t>(rank.index)];
  };
  if (options.num_replays > 0) {
    world.each_rank([&](Rank& rank) { step_of(rank).capture(rank); });
  }
  for (auto& step : steps) step->write_inputs();
  for (int pass = 0; pass < std::max(1, options.num_replays); ++pass) {
    for (auto& step : steps) step->poison_results();
    world.each_rank([&](Rank& rank) {
      if (options.num_replays > 0) {
        step_of(rank).launch();
      } else {
        step_of(rank).enqueue(rank);
      }
    });
    world.drain();
  }
  PartialsResult result{.keeps_all_heads = strategy.keeps_all_heads(),
                        .egress_bytes = steps.front()->egress_bytes(),
                        .ranks = {}};
  for (auto& step : steps) result.ranks.push_back(step->results());
  return result;
}

}  // namespace dcp
