#include "kernels/direct_combine.hpp"

#include "kernels/accesses.hpp"
#include "kernels/combine_row.hpp"
#include "kernels/slot_rows.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

using Params = DirectCombine::Params;

SlotRows slot_rows(const Params& params) {
  return {.max_num_tokens = params.max_num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.heads_per_rank};
}

template <LseBase kBase, class T>
void combine_rows(const Params& params, std::uint32_t slot) {
  const SlotRows slots = slot_rows(params);
  const auto* payload = static_cast<const T*>(params.payload);
  auto* out = static_cast<T*>(params.out.data);
  std::vector<float> factors(static_cast<std::size_t>(params.world_size));
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    for (int head = 0; head < params.heads_per_rank; ++head) {
      const auto lse_of = [&](int sender) {
        return params.lse_slots[slots.row(slot, sender, token, head)];
      };
      const auto row_of = [&](int sender) {
        return payload + slots.row(slot, sender, token, head) * params.head_dim;
      };
      const LseSum total = rank_factors<kBase, OneLane>(params.world_size, lse_of, factors.data());
      sum_rank_rows<OneLane>(
          factors.data(), params.world_size, params.head_dim, row_of,
          StridedRow<T>{out + params.out.strides.offset(token, head), params.out.strides.element});
      if (params.lse != nullptr) {
        params.lse[token * params.heads_per_rank + head] = combined_lse<kBase>(total);
      }
    }
  }
}

}  // namespace

DirectWait::Params DirectCombine::Params::wait() const {
  return {.state = state,
          .signals = signals,
          .stores = stores,
          .bound = bound,
          .world_size = world_size,
          .rank = rank,
          .ubatch = ubatch,
          .num_slots = num_slots};
}

void DirectCombine::accesses(const Params& params, std::vector<Access>& out) {
  constexpr std::int64_t kWord = sizeof(float);
  const std::int64_t rows = params.num_tokens * params.heads_per_rank;
  const std::int64_t row_bytes =
      params.head_dim * static_cast<std::int64_t>(size_bytes(params.out.dtype));
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
  declare(out, params.signals, std::int64_t{params.num_slots} * params.world_size * kWord,
          Mode::kRead, "signals");
  const SlotRows slots = slot_rows(params);
  for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
    for (int sender = 0; sender < params.world_size; ++sender) {
      const std::int64_t first = slots.row(slot, sender, 0, 0);
      declare(out, static_cast<const char*>(params.payload) + first * row_bytes, rows * row_bytes,
              Mode::kRead, "payload");
      declare(out, params.lse_slots + first, rows * kWord, Mode::kRead, "lse_slots");
    }
  }
  declare_write(out, params.out, {params.num_tokens, params.heads_per_rank, params.head_dim},
                "out");
  if (params.lse != nullptr) declare(out, params.lse, rows * kWord, Mode::kWrite, "lse");
}

void DirectCombine::run(const Params& params) {
  DirectWait::run(params.wait());
  const std::uint32_t epoch = params.state->epoch;
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      combine_rows<kBase, T>(params, slot_of(epoch, params.num_slots));
    });
  });
  params.state->consumed = epoch;
}

}  // namespace dcp
