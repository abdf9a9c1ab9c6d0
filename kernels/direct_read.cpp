#include "kernels/direct_read.hpp"

#include <limits>

#include "core/packed_rows.hpp"
#include "kernels/accesses.hpp"
#include "kernels/lse_weights.hpp"
#include "kernels/packed_row.hpp"
#include "kernels/slot_rows.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

using Params = DirectRead::Params;

SlotRows slot_rows(const Params& params) {
  return {.max_num_tokens = params.max_num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.heads_per_rank};
}

PackedRows packed_rows(const Params& params) {
  return {.num_tokens = params.num_tokens,
          .world_size = params.world_size,
          .heads_per_rank = params.heads_per_rank,
          .head_dim = params.head_dim,
          .dtype = params.dtype,
          .layout = A2aLayout::kSplit};
}

template <class T>
void read_rows(const Params& params, std::uint32_t slot) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  const SlotRows slots = slot_rows(params);
  const PackedRows packed = packed_rows(params);
  const auto* payload = static_cast<const T*>(params.payload);
  auto* received = static_cast<T*>(params.received);
  for (int sender = 0; sender < params.world_size; ++sender) {
    for (std::int64_t token = 0; token < params.num_tokens; ++token) {
      for (int head = 0; head < params.heads_per_rank; ++head) {
        const std::int64_t row = slots.row(slot, sender, token, head);
        const float lse = params.lse_slots[row];
        store_lse_lanes(received + packed.lse_offset(sender, token, head),
                        std::bit_cast<std::uint32_t>(lse));
        if (sanitize_lse(lse) == kMinusInfinity) continue;
        move_payload<OneLane>(StridedRow<const T>{payload + row * params.head_dim, 1},
                              received + packed.payload_offset(sender, token, head),
                              params.head_dim);
      }
    }
  }
}

}  // namespace

void DirectRead::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
  const SlotRows slots = slot_rows(params);
  const std::int64_t rows = params.num_tokens * params.heads_per_rank;
  const auto element = static_cast<std::int64_t>(size_bytes(params.dtype));
  for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
    for (int sender = 0; sender < params.world_size; ++sender) {
      const std::int64_t first = slots.row(slot, sender, 0, 0);
      declare(out, static_cast<const char*>(params.payload) + first * params.head_dim * element,
              rows * params.head_dim * element, Mode::kRead, "payload");
      declare(out, params.lse_slots + first, rows * static_cast<std::int64_t>(sizeof(float)),
              Mode::kRead, "lse_slots");
    }
  }
  declare(out, params.received,
          params.world_size * packed_rows(params).elements_per_peer() * element, Mode::kWrite,
          "received");
}

void DirectRead::run(const Params& params) {
  const std::uint32_t epoch = params.state->epoch;
  dispatch_dtype(params.dtype,
                 [&]<class T>() { read_rows<T>(params, slot_of(epoch, params.num_slots)); });
  params.state->consumed = epoch;
}

}  // namespace dcp
