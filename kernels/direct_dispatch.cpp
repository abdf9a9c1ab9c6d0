#include "kernels/direct_dispatch.hpp"

#include "kernels/accesses.hpp"
#include "kernels/packed_row.hpp"
#include "kernels/slot_rows.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

using Params = DirectDispatch::Params;

SlotRows slot_rows(const Params& params) {
  return {.max_num_tokens = params.max_num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.num_heads / params.world_size};
}

template <class T>
void store(const Params& params, int peer, void* at, const std::vector<T>& values) {
  store_at(params.stores, {params.rank, peer}, at, values.data(), values.size() * sizeof(T));
}

template <class Lse>
void store_lses(const Params& params, int peer, std::uint32_t slot) {
  const SlotRows slots = slot_rows(params);
  const auto* lse = static_cast<const Lse*>(params.lse.data);
  std::vector<std::uint32_t> bits;
  for (std::int64_t token = 0; token < params.num_tokens; ++token) {
    const bool is_empty = params.empty.has(token);
    for (int head = 0; head < slots.heads_per_rank; ++head) {
      const int own_head = peer * slots.heads_per_rank + head;
      bits.push_back(masked_lse_bits(lse[params.lse.strides.offset(token, own_head)], is_empty));
    }
  }
  store(params, peer, params.lse_slots.at[peer] + slots.row(slot, params.rank, 0, 0), bits);
}

// Neighbouring rows that are not empty go in one store.
template <class T>
void store_payload(const Params& params, int peer, std::uint32_t slot) {
  const SlotRows slots = slot_rows(params);
  const auto* out = static_cast<const T*>(params.out.data);
  const auto head_dim = static_cast<std::size_t>(params.head_dim);
  std::vector<T> rows;
  std::int64_t first = 0;
  for (std::int64_t token = 0; token <= params.num_tokens; ++token) {
    if (token == params.num_tokens || params.empty.has(token)) {
      store(params, peer,
            static_cast<T*>(params.payload.at[peer]) +
                slots.row(slot, params.rank, first, 0) * params.head_dim,
            rows);
      rows.clear();
      first = token + 1;
      continue;
    }
    for (int head = 0; head < slots.heads_per_rank; ++head) {
      const std::int64_t offset =
          params.out.strides.offset(token, peer * slots.heads_per_rank + head);
      rows.resize(rows.size() + head_dim);
      move_payload<OneLane>(StridedRow<const T>{out + offset, params.out.strides.element},
                            rows.data() + rows.size() - head_dim, params.head_dim);
    }
  }
}

}  // namespace

void DirectDispatch::accesses(const Params& params, std::vector<Access>& out) {
  declare_read(out, params.out, {params.num_tokens, params.num_heads, params.head_dim}, "out");
  declare_read(out, params.lse, {params.num_tokens, params.num_heads, 1}, "lse");
  declare_empty(out, params.empty, params.num_tokens);
  declare(out, params.state, sizeof(ExchangeState), Mode::kRead, "state");
  const SlotRows slots = slot_rows(params);
  const std::int64_t rows = params.num_tokens * slots.heads_per_rank;
  const auto row_bytes = params.head_dim * static_cast<std::int64_t>(size_bytes(params.out.dtype));
  for (int peer = 0; peer < params.world_size; ++peer) {
    for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
      const std::int64_t first = slots.row(slot, params.rank, 0, 0);
      declare(out, static_cast<char*>(params.payload.at[peer]) + first * row_bytes,
              rows * row_bytes, Mode::kWrite, "payload");
      declare(out, params.lse_slots.at[peer] + first,
              rows * static_cast<std::int64_t>(sizeof(float)), Mode::kWrite, "lse_slots");
    }
  }
}

void DirectDispatch::run(const Params& params) {
  const std::uint32_t slot = slot_of(params.state->epoch, params.num_slots);
  for (int peer = 0; peer < params.world_size; ++peer) {
    dispatch_dtype(params.lse.dtype, [&]<class Lse>() { store_lses<Lse>(params, peer, slot); });
    dispatch_dtype(params.out.dtype, [&]<class T>() { store_payload<T>(params, peer, slot); });
  }
}

}  // namespace dcp
