// direct: store own rows straight into the peers' slots, publish the epoch, wait, combine. Sends at
// most (N-1)/N * T*H*(D*e + 4) bytes per rank: rows that are empty on a rank leave it without their
// payload. One or two rows in lines: 2 * (N-1)/N * T*H*D*e bytes, empty or not.
#include "kernels/a2a_pack.hpp"
#include "kernels/direct_exchange.hpp"
#include "kernels/direct_lines.hpp"
#include "strategies/direct_exchange.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

PackedRows packed(const StepShape& shape) {
  return {.num_tokens = shape.num_tokens,
          .world_size = shape.world_size,
          .heads_per_rank = shape.heads_per_rank,
          .head_dim = shape.head_dim,
          .dtype = shape.dtype,
          .layout = A2aLayout::kSplit};
}

// One rank has nothing to exchange: what it combines is its own partial, masked.
void enqueue_alone(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                   const Partials& partials, const Combined& combined) {
  lane.enqueue<A2aPack>({.out = partials.out,
                         .lse = partials.lse,
                         .send = buffers.at("received"),
                         .empty = empty_rows(shape, partials),
                         .num_tokens = shape.num_tokens,
                         .num_heads = shape.num_heads,
                         .head_dim = shape.head_dim,
                         .world_size = 1,
                         .layout = A2aLayout::kSplit});
  enqueue_direct_combine(lane, shape, buffers, combined);
}

// Few rows, in lines that are their own flags.
bool has_lines(const StepShape& shape) {
  return shape.world_size > 1 && shape.direct.form == DirectForm::kFused &&
         shape.world_size <= kMaxLineRanks;
}

bool sends_lines(const StepShape& shape) {
  return has_lines(shape) && shape.num_tokens <= kMaxLineTokens;
}

// Of rows that leave the rank.
std::size_t bytes_per_token(const StepShape& shape) {
  return static_cast<std::size_t>(shape.world_size - 1) * shape.heads_per_rank * shape.head_dim *
         size_bytes(shape.dtype);
}

void enqueue_lines(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                   const Partials& partials, const Combined& combined) {
  const Exchange<> exchange(lane, shape, buffers, direct_names(shape));
  lane.enqueue<DirectLines>({.out = partials.out,
                             .lse = partials.lse,
                             .lines = buffers.peers<ExchangeLine>("lines"),
                             .state = exchange.state(),
                             .empty = empty_rows(shape, partials),
                             .stores = exchange.stores(),
                             .bound = exchange.wait().bound,
                             .combined = combined.out,
                             .combined_lse = combined.lse,
                             .num_tokens = shape.num_tokens,
                             .num_heads = shape.num_heads,
                             .head_dim = shape.head_dim,
                             .world_size = shape.world_size,
                             .rank = shape.rank,
                             .ubatch = lane.ubatch,
                             .num_slots = exchange.num_slots(),
                             .base = shape.lse.base});
}

// The same exchange in one node; the peers' rows are combined where they lie.
void enqueue_fused(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                   const Partials& partials, const Combined& combined) {
  const Exchange<> exchange(lane, shape, buffers, direct_names(shape));
  DirectDispatch::Params send = dispatch_params(exchange, shape, buffers, partials);
  send.keeps_own_rows = true;
  lane.enqueue<DirectExchange>({.send = send,
                                .publish = exchange.publish(),
                                .wait = exchange.wait(),
                                .out = combined.out,
                                .lse = combined.lse,
                                .base = shape.lse.base});
}

class Direct final : public Strategy {
 public:
  std::string_view name() const override { return "direct"; }
  std::string_view describe() const override {
    return "store rows straight into the peers' slots, flags, combine";
  }
  bool keeps_all_heads() const override { return false; }
  bool uses_peer_memory() const override { return true; }

  bool falls_back(const DirectSpec& direct) const override {
    return direct.fallback != DirectFallback::kNone;
  }

  const Strategy& effective(const StepShape& shape) const override {
    const bool fits = shape.num_tokens <= shape.max_exchange_tokens;
    if (fits || shape.direct.fallback == DirectFallback::kNone) return *this;
    return shape.direct.fallback == DirectFallback::kA2a ? a2a_strategy() : ag_rs_strategy();
  }

  void plan(const StepShape& shape, BufferPlan& plan) const override {
    plan_direct_exchange(shape, plan);
    const Strategy& used = effective(shape);
    if (&used != this) used.plan(shape, plan);
  }

  void enqueue(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
               const Partials& partials, const Combined& combined) const override {
    const Strategy& used = effective(shape);
    if (&used != this) return used.enqueue(lane, shape, buffers, partials, combined);
    if (shape.world_size == 1) return enqueue_alone(lane, shape, buffers, partials, combined);
    const bool is_fused = shape.direct.form == DirectForm::kFused;
    const bool is_captured = lane.rank.runtime.is_capturing(lane.compute);
    if (is_fused && lane.rank.peers->may_wait_at_once(is_captured)) {
      const bool is_small = sends_lines(shape);
      return (is_small ? enqueue_lines : enqueue_fused)(lane, shape, buffers, partials, combined);
    }
    enqueue_direct_exchange(lane, shape, buffers, partials, combined);
  }

  std::size_t egress_bytes(const StepShape& shape) const override {
    const Strategy& used = effective(shape);
    if (&used != this) return used.egress_bytes(shape);
    const auto tokens = static_cast<std::size_t>(shape.num_tokens);
    if (sends_lines(shape)) return tokens * bytes_per_token(shape) * kLineBytesPerByte;
    return static_cast<std::size_t>((shape.world_size - 1) * packed(shape).elements_per_peer()) *
           size_bytes(shape.dtype);
  }

  std::size_t unsent_bytes_per_empty_row(const StepShape& shape) const override {
    const Strategy& used = effective(shape);
    if (&used != this) return used.unsent_bytes_per_empty_row(shape);
    return sends_lines(shape) ? 0 : bytes_per_token(shape);
  }
};

}  // namespace

void plan_direct_exchange(const StepShape& shape, BufferPlan& plan) {
  const auto received =
      static_cast<std::size_t>(packed(shape).elements_per_peer() * shape.world_size) *
      size_bytes(shape.dtype);
  plan.add("received", received, Lifetime::kWorkspace);
  if (shape.world_size == 1) return;
  const std::int64_t rows = shape.max_exchange_tokens;
  plan.add("payload", shape.dtype,
           {shape.direct.slots, shape.world_size, rows, shape.heads_per_rank, shape.head_dim},
           Lifetime::kSymmetric);
  plan.add("lse_slots", DType::kFp32,
           {shape.direct.slots, shape.world_size, rows, shape.heads_per_rank},
           Lifetime::kSymmetric);
  plan_exchange(shape, direct_names(shape), plan);
  if (has_lines(shape)) {
    const auto num_rows = static_cast<std::size_t>(shape.direct.slots * kMaxLineTokens *
                                                   shape.world_size * shape.heads_per_rank);
    const auto row_bytes = static_cast<std::size_t>(shape.head_dim) * size_bytes(shape.dtype);
    plan.add({.name = "lines",
              .size_bytes = num_rows * row_bytes * kLineBytesPerByte,
              .lifetime = Lifetime::kSymmetric,
              .content = Content::kLines});
  }
}

void enqueue_direct_combine(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                            const Combined& combined) {
  lane.enqueue<A2aCombine>({.recv = buffers.at("received"),
                            .out = combined.out,
                            .lse = combined.lse,
                            .num_tokens = shape.num_tokens,
                            .heads_per_rank = shape.heads_per_rank,
                            .head_dim = shape.head_dim,
                            .world_size = shape.world_size,
                            .base = shape.lse.base,
                            .layout = A2aLayout::kSplit});
}

const Strategy& direct_strategy() {
  static const Direct strategy;
  return strategy;
}

}  // namespace dcp
