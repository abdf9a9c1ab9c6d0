#include "kernels/direct_exchange.hpp"

#include "kernels/accesses.hpp"
#include "kernels/combine_row.hpp"
#include "kernels/slot_rows.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

using Params = DirectExchange::Params;

DirectAdvance::Params advance(const Params& params) {
  return {.state = params.publish.state, .num_slots = params.publish.num_slots};
}

SlotRows slot_rows(const DirectDispatch::Params& send) {
  return {.max_num_tokens = send.max_num_tokens,
          .world_size = send.world_size,
          .heads_per_rank = send.num_heads / send.world_size};
}

template <LseBase kBase, class T>
void combine_rows(const Params& params, std::uint32_t slot) {
  const DirectDispatch::Params& send = params.send;
  const SlotRows slots = slot_rows(send);
  const auto* payload = static_cast<const T*>(send.payload.at[send.rank]);
  const float* lses = send.lse_slots.at[send.rank];
  const auto own_row = [&](std::int64_t token, int head) -> StridedRow<const T> {
    const int own_head = send.rank * slots.heads_per_rank + head;
    const auto* partial = static_cast<const T*>(send.out.data);
    return {partial + send.out.strides.offset(token, own_head), send.out.strides.element};
  };
  auto* out = static_cast<T*>(params.out.data);
  std::vector<float> factors(static_cast<std::size_t>(send.world_size));
  for (std::int64_t token = 0; token < send.num_tokens; ++token) {
    for (int head = 0; head < slots.heads_per_rank; ++head) {
      const auto lse_of = [&](int sender) { return lses[slots.row(slot, sender, token, head)]; };
      const auto row_of = [&](int sender) -> StridedRow<const T> {
        if (sender == send.rank) return own_row(token, head);
        return {payload + slots.row(slot, sender, token, head) * send.head_dim, 1};
      };
      const LseSum total = rank_factors<kBase, OneLane>(send.world_size, lse_of, factors.data());
      sum_rank_rows<OneLane>(
          factors.data(), send.world_size, send.head_dim, row_of,
          StridedRow<T>{out + params.out.strides.offset(token, head), params.out.strides.element});
      if (params.lse != nullptr) {
        params.lse[token * slots.heads_per_rank + head] = combined_lse<kBase>(total);
      }
    }
  }
}

}  // namespace

// The parts' accesses, of which the state is one, and those of the combine. Own rows do not go
// through the slot, and count as if they did: a rank's own parts say where the slots are.
void DirectExchange::accesses(const Params& params, std::vector<Access>& out) {
  const DirectDispatch::Params& send = params.send;
  std::vector<Access> parts;
  DirectAdvance::accesses(advance(params), out);
  DirectDispatch::accesses(send, parts);
  DirectPublish::accesses(params.publish, parts);
  DirectWait::accesses(params.wait, parts);
  for (const Access& part : parts) {
    if (part.data != params.publish.state) out.push_back(part);
  }
  constexpr std::int64_t kWord = sizeof(float);
  const SlotRows slots = slot_rows(send);
  const std::int64_t rows = send.num_tokens * slots.heads_per_rank;
  const auto row_bytes = send.head_dim * static_cast<std::int64_t>(size_bytes(params.out.dtype));
  const auto* payload = static_cast<const char*>(send.payload.at[send.rank]);
  for (std::uint32_t slot = 0; slot < send.num_slots; ++slot) {
    for (int sender = 0; sender < send.world_size; ++sender) {
      const std::int64_t first = slots.row(slot, sender, 0, 0);
      declare(out, payload + first * row_bytes, rows * row_bytes, Mode::kRead, "payload");
      declare(out, send.lse_slots.at[send.rank] + first, rows * kWord, Mode::kRead, "lse_slots");
    }
  }
  declare_write(out, params.out, {send.num_tokens, slots.heads_per_rank, send.head_dim},
                "combined");
  if (params.lse != nullptr) declare(out, params.lse, rows * kWord, Mode::kWrite, "combined_lse");
}

void DirectExchange::arrive(const Params& params) {
  DirectAdvance::run(advance(params));
  DirectDispatch::run(params.send);
  DirectPublish::run(params.publish);
}

void DirectExchange::run(const Params& params) {
  DirectWait::run(params.wait);
  const std::uint32_t epoch = params.wait.state->epoch;
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() {
      combine_rows<kBase, T>(params, slot_of(epoch, params.wait.num_slots));
    });
  });
  params.publish.state->consumed = epoch;
}

}  // namespace dcp
