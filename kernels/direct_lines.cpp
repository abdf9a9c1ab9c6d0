#include "kernels/direct_lines.hpp"

#include <bit>
#include <cstring>

#include "kernels/accesses.hpp"
#include "kernels/combine_row.hpp"
#include "kernels/packed_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

using Params = DirectLines::Params;

constexpr std::size_t kLineBytes = sizeof(ExchangeLine::bits);

SlotLines slot_lines(const Params& params) {
  const auto row_bytes =
      static_cast<std::size_t>(params.head_dim) * size_bytes(params.combined.dtype);
  return {.world_size = params.world_size,
          .heads_per_rank = params.num_heads / params.world_size,
          .per_row = static_cast<std::int32_t>(row_bytes / kLineBytes)};
}

std::uint32_t lse_bits(const Params& params, std::int64_t token, int head) {
  std::uint32_t bits = 0;
  dispatch_dtype(params.lse.dtype, [&]<class Lse>() {
    const auto* lse = static_cast<const Lse*>(params.lse.data);
    bits = masked_lse_bits(lse[params.lse.strides.offset(token, head)], params.empty.has(token));
  });
  return bits;
}

template <class T>
std::vector<ExchangeLine> lines_of(const Params& params, std::int64_t token, int head) {
  std::vector<T> row(static_cast<std::size_t>(params.head_dim));
  if (!params.empty.has(token)) {
    const T* from = static_cast<const T*>(params.out.data) + params.out.strides.offset(token, head);
    move_payload<OneLane>(StridedRow<const T>{from, params.out.strides.element}, row.data(),
                          params.head_dim);
  }
  std::vector<ExchangeLine> lines(row.size() * sizeof(T) / kLineBytes);
  const std::uint32_t lse = lse_bits(params, token, head);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i] = {.bits = 0, .lse = lse, .epoch = params.state->epoch};
    std::memcpy(&lines[i].bits, row.data() + i * kLineBytes / sizeof(T), kLineBytes);
  }
  return lines;
}

// The lines of a row get there together: a reader that looks at every epoch cannot tell.
template <class T>
void store_lines(const Params& params, std::uint32_t slot) {
  const SlotLines slots = slot_lines(params);
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    for (int head = 0; head < params.num_heads; ++head) {
      const std::vector<ExchangeLine> lines = lines_of<T>(params, token, head);
      const std::size_t size = lines.size() * sizeof(ExchangeLine);
      const int peer = head / slots.heads_per_rank;
      ExchangeLine* const at =
          params.lines.at[peer] + slots.row(slot, params.rank, token, head % slots.heads_per_rank);
      if (params.stores == nullptr || peer == params.rank) {
        std::memcpy(at, lines.data(), size);
      } else {
        params.stores->store_polled({params.rank, peer}, at, lines.data(), size);
      }
    }
  }
}

// The epoch of a line of the sender's that is not this exchange's; none: this one's.
std::uint32_t seen_of(const Params& params, int sender) {
  const SlotLines slots = slot_lines(params);
  const std::uint32_t epoch = params.state->epoch;
  const std::uint32_t slot = slot_of(epoch, params.num_slots);
  const ExchangeLine* const lines = params.lines.at[params.rank] + slots.row(slot, sender, 0, 0);
  const std::int64_t count = params.num_tokens * slots.heads_per_rank * slots.per_row;
  for (std::int64_t i = 0; i < count; ++i) {
    if (lines[i].epoch != epoch) return lines[i].epoch;
  }
  return epoch;
}

template <LseBase kBase, class T>
void combine_rows(const Params& params, std::uint32_t slot) {
  const SlotLines slots = slot_lines(params);
  const auto head_dim = static_cast<std::size_t>(params.head_dim);
  std::vector<T> rows(head_dim * static_cast<std::size_t>(params.world_size));
  std::vector<float> factors(static_cast<std::size_t>(params.world_size));
  const auto lines_at = [&](int sender, std::int64_t token, int head) {
    return params.lines.at[params.rank] + slots.row(slot, sender, token, head);
  };
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    for (int head = 0; head < slots.heads_per_rank; ++head) {
      const auto lse_of = [&](int sender) {
        return std::bit_cast<float>(lines_at(sender, token, head)->lse);
      };
      const auto row_of = [&](int sender) {
        T* const row = rows.data() + sender * params.head_dim;
        const ExchangeLine* const lines = lines_at(sender, token, head);
        for (int i = 0; i < slots.per_row; ++i) {
          std::memcpy(row + i * kLineBytes / sizeof(T), &lines[i].bits, kLineBytes);
        }
        return static_cast<const T*>(row);
      };
      const LseSum total = rank_factors<kBase, OneLane>(params.world_size, lse_of, factors.data());
      T* const out =
          static_cast<T*>(params.combined.data) + params.combined.strides.offset(token, head);
      sum_rank_rows<OneLane>(factors.data(), params.world_size, params.head_dim, row_of,
                             StridedRow<T>{out, params.combined.strides.element});
      if (params.combined_lse != nullptr) {
        params.combined_lse[token * slots.heads_per_rank + head] = combined_lse<kBase>(total);
      }
    }
  }
}

}  // namespace

void DirectLines::accesses(const Params& params, std::vector<Access>& out) {
  const SlotLines slots = slot_lines(params);
  declare_read(out, params.out, {params.num_tokens, params.num_heads, params.head_dim}, "out");
  declare_read(out, params.lse, {params.num_tokens, params.num_heads, 1}, "lse");
  declare_empty(out, params.empty, params.num_tokens);
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
  const std::int64_t rows = params.num_tokens * slots.heads_per_rank;
  const std::int64_t size = rows * slots.per_row * static_cast<std::int64_t>(sizeof(ExchangeLine));
  for (int peer = 0; peer < params.world_size; ++peer) {
    for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
      declare(out, params.lines.at[peer] + slots.row(slot, params.rank, 0, 0), size, Mode::kWrite,
              "lines");
      declare(out, params.lines.at[params.rank] + slots.row(slot, peer, 0, 0), size, Mode::kRead,
              "lines");
    }
  }
  declare_write(out, params.combined, {params.num_tokens, slots.heads_per_rank, params.head_dim},
                "combined");
  if (params.combined_lse != nullptr) {
    declare(out, params.combined_lse, rows * static_cast<std::int64_t>(sizeof(float)), Mode::kWrite,
            "combined_lse");
  }
}

void DirectLines::arrive(const Params& params) {
  ExchangeState& state = *params.state;
  state.epoch = next_epoch(state.epoch, params.num_slots);
  dispatch_dtype(params.out.dtype, [&]<class T>() {
    store_lines<T>(params, slot_of(state.epoch, params.num_slots));
  });
  state.published = state.epoch;
}

bool DirectLines::ready(const Params& params) {
  for (int sender = 0; sender < params.world_size; ++sender) {
    if (seen_of(params, sender) != params.state->epoch) return false;
  }
  return true;
}

std::string DirectLines::waits_for(const Params& params) {
  const std::uint32_t epoch = params.state->epoch;
  std::string text = wanted_text(params.ubatch, epoch, params.num_slots);
  for (int sender = 0; sender < params.world_size; ++sender) {
    const std::uint32_t seen = seen_of(params, sender);
    if (seen != epoch) text += seen_text(sender, seen);
  }
  return text;
}

void DirectLines::run(const Params& params) {
  const std::uint32_t slot = slot_of(params.state->epoch, params.num_slots);
  dispatch_lse_base(params.base, [&]<LseBase kBase>() {
    dispatch_dtype(params.out.dtype, [&]<class T>() { combine_rows<kBase, T>(params, slot); });
  });
  params.state->consumed = params.state->epoch;
}

}  // namespace dcp
