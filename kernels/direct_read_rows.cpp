#include "kernels/direct_read_rows.hpp"

#include <cstring>

#include "kernels/accesses.hpp"

namespace dcp {

namespace {

// Where the rows of a sender begin in a slot.
const char* rows_of(const DirectReadRows::Params& params, std::uint32_t slot, int sender) {
  const std::int64_t part = static_cast<std::int64_t>(slot) * params.world_size + sender;
  return static_cast<const char*>(params.slots) + part * params.max_num_rows * params.row_bytes;
}

}  // namespace

void DirectReadRows::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
  const std::int64_t part_bytes = params.num_rows * params.row_bytes;
  for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
    for (int sender = 0; sender < params.world_size; ++sender) {
      declare(out, rows_of(params, slot, sender), part_bytes, Mode::kRead, "slots");
    }
  }
  declare(out, params.gathered, params.world_size * part_bytes, Mode::kWrite, "gathered");
}

void DirectReadRows::run(const Params& params) {
  const std::uint32_t epoch = params.state->epoch;
  const auto part_bytes = static_cast<std::size_t>(params.num_rows * params.row_bytes);
  auto* to = static_cast<char*>(params.gathered);
  for (int sender = 0; sender < params.world_size; ++sender, to += part_bytes) {
    if (part_bytes == 0) break;
    std::memcpy(to, rows_of(params, slot_of(epoch, params.num_slots), sender), part_bytes);
  }
  params.state->consumed = epoch;
}

}  // namespace dcp
