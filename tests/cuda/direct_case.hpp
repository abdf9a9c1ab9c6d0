// A direct exchange of ranks whose memory lies in one arena, for the host and the GPU.
#pragma once

#include <string>

#include "kernels/exchange_state.hpp"
#include "tests/cuda/arena.hpp"

namespace dcp {

inline constexpr DType kDTypes[] = {DType::kBf16, DType::kFp16, DType::kFp32};
inline constexpr std::uint32_t kSlots = 2;

// One rank's exchange among `world_size`, in an arena that holds the memory of all of them.
struct Exchange {
  int world_size, rank, heads_per_rank, head_dim;
  std::int64_t num_tokens, max_num_tokens;
  DType dtype, lse_dtype;
  std::uint32_t epoch;
  bool is_head_major;
  std::int64_t element_stride = 1;  // of partials and results
  int head_padding = 0;             // elements between heads of partials and results

  std::size_t out{}, lse{}, payload{}, lse_slots{}, signals{}, state{}, received{};
  std::size_t empty_ranks{};

  std::size_t slot_rows() const {
    return std::size_t{kSlots} * world_size * max_num_tokens * heads_per_rank;
  }
  std::size_t row_bytes() const { return head_dim * size_bytes(dtype); }
  int num_heads() const { return world_size * heads_per_rank; }

  // Requests of one row; every third has no key here, and the last row is padding.
  void add_to(Arena& arena) {
    const auto rows = static_cast<std::size_t>(num_tokens) * num_heads();
    out = arena.add_random(rows * stored_dim(), dtype);
    lse = arena.add_random(rows, lse_dtype, 5.0f);
    payload = arena.add(world_size * slot_rows() * row_bytes());
    lse_slots = arena.add(world_size * slot_rows() * sizeof(float));
    signals = arena.add(std::size_t{kSlots} * world_size * world_size * sizeof(std::uint32_t));
    received = arena.add(static_cast<std::size_t>(num_tokens) * num_heads() *
                         (head_dim + lse_lanes(dtype)) * size_bytes(dtype));
    state = arena.add(sizeof(ExchangeState));
    const ExchangeState begin{epoch, epoch - 1, epoch - 1, 0};
    std::memcpy(arena.host() + state, &begin, sizeof(begin));
    empty_ranks = arena.add_empty_ranks(num_tokens);
  }

  // Elements from one head of a partial or a result to the next one.
  std::int64_t stored_dim() const { return head_dim * element_stride + head_padding; }

  HeadStrides strides(std::int64_t dim, int heads, std::int64_t element = 1) const {
    if (is_head_major) return {0, dim, num_tokens * dim, element, heads};
    return {0, heads * dim, dim, element, heads};
  }

  DirectDispatch::Params dispatch(std::byte* base) const {
    DirectDispatch::Params params{};
    params.out = {base + out, strides(stored_dim(), num_heads(), element_stride), dtype};
    params.lse = {base + lse, strides(1, num_heads()), lse_dtype};
    for (int peer = 0; peer < world_size; ++peer) {
      params.payload.at[peer] = base + payload + peer * slot_rows() * row_bytes();
      params.lse_slots.at[peer] = reinterpret_cast<float*>(base + lse_slots) + peer * slot_rows();
    }
    params.state = reinterpret_cast<const ExchangeState*>(base + state);
    params.empty = {reinterpret_cast<const std::uint64_t*>(base + empty_ranks), rank};
    params.num_tokens = num_tokens;
    params.max_num_tokens = max_num_tokens;
    params.num_heads = num_heads();
    params.head_dim = head_dim;
    params.world_size = world_size;
    params.rank = rank;
    params.num_slots = kSlots;
    return params;
  }

  DirectPublish::Params publish(std::byte* base) const {
    DirectPublish::Params params{};
    params.state = reinterpret_cast<ExchangeState*>(base + state);
    for (int peer = 0; peer < world_size; ++peer) {
      params.signals.at[peer] =
          reinterpret_cast<std::uint32_t*>(base + signals) + peer * kSlots * world_size;
    }
    params.world_size = world_size;
    params.rank = rank;
    params.num_slots = kSlots;
    return params;
  }

  // Of the memory of the first rank, which also this one's dispatch has stored into.
  DirectRead::Params read(std::byte* base) const {
    return {.payload = base + payload,
            .lse_slots = reinterpret_cast<const float*>(base + lse_slots),
            .received = base + received,
            .state = reinterpret_cast<ExchangeState*>(base + state),
            .num_tokens = num_tokens,
            .max_num_tokens = max_num_tokens,
            .heads_per_rank = heads_per_rank,
            .head_dim = head_dim,
            .world_size = world_size,
            .num_slots = kSlots,
            .dtype = dtype};
  }
};

// Few and many ranks, short and long rows, all dtypes: calls `body(arena, exchange)` for each.
template <class Body>
void for_each_exchange(const Body& body) {
  int variant = 0;
  for (const DType dtype : kDTypes) {
    for (const int world_size : {2, 3, 8, 9, 16}) {
      for (const int dim : {8, 24, 512, 576}) {
        Exchange exchange{.world_size = world_size,
                          .rank = variant % world_size,
                          .heads_per_rank = 1 + variant % 3,
                          .head_dim = dim,
                          .num_tokens = 1 + variant % 7,
                          .max_num_tokens = 7 + variant % 2,
                          .dtype = dtype,
                          .lse_dtype = kDTypes[variant % 3],
                          .epoch = 5u + static_cast<std::uint32_t>(variant % 2),
                          .is_head_major = variant % 4 == 3};
        ++variant;
        Arena arena;
        exchange.add_to(arena);
        SCOPED_TRACE(std::string(name(dtype)) + " N " + std::to_string(world_size) + " D " +
                     std::to_string(dim) + " T " + std::to_string(exchange.num_tokens));
        body(arena, exchange);
      }
    }
  }
}

}  // namespace dcp
