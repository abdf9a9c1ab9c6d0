// The epochs of a direct exchange. Each exchange of a ubatch has the next epoch, which a counter on
// the device holds, and happens in the slot of its epoch. A flag is an epoch: that of the last
// exchange in the slot for which its sender has published. It is compared exactly: after the wrap
// an older epoch may be the larger number.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace dcp {

// Of one rank and ubatch, in memory that the peers may read.
struct ExchangeState {
  std::uint32_t epoch;         // of the exchange in progress, or the last one
  std::uint32_t published;     // last epoch whose flags this rank has raised
  std::uint32_t consumed;      // last epoch whose rows this rank has read: last_consumed
  std::uint32_t num_done;      // blocks of the kernel in progress that are done; 0 between kernels
  std::uint32_t num_lost = 0;  // waits of the last exchange that were in vain, on a GPU
};

// Then the exchange is the last of this state: what the graph holds of later ones does nothing.
// Exchanges of other states find out for themselves.
DCP_HOST_DEVICE constexpr bool is_lost(const ExchangeState& state) { return state.num_lost != 0; }

// Epochs count from 0 to this and begin anew, so that consecutive ones never share a slot, whatever
// the number of slots: 2^32 - 1 for two slots.
DCP_HOST_DEVICE constexpr std::uint32_t last_epoch(std::uint32_t num_slots) {
  constexpr std::uint64_t kNumbers = std::uint64_t{1} << 32;
  return static_cast<std::uint32_t>(kNumbers / num_slots * num_slots - 1);
}

DCP_HOST_DEVICE constexpr std::uint32_t next_epoch(std::uint32_t epoch, std::uint32_t num_slots) {
  return epoch >= last_epoch(num_slots) ? 0 : epoch + 1;
}

DCP_HOST_DEVICE constexpr std::uint32_t slot_of(std::uint32_t epoch, std::uint32_t num_slots) {
  const bool is_power_of_two = (num_slots & (num_slots - 1)) == 0;
  return is_power_of_two ? epoch & (num_slots - 1) : epoch % num_slots;
}

// The last epoch whose rows this rank has read. A kernel that does all of an exchange notes at once
// that it was consumed; where it then waits in vain, the one before was the last. One of which some
// blocks came after the loss, and left, has noted nothing.
constexpr std::uint32_t last_consumed(const ExchangeState& state, std::uint32_t num_slots) {
  const bool was_noted = state.consumed == state.epoch && state.num_done == 0;
  if (!is_lost(state) || !was_noted) return state.consumed;
  return state.consumed == 0 ? last_epoch(num_slots) : state.consumed - 1;
}

// The last epoch of the slot that is not after `epoch`: what its flags hold when nothing is under
// way. No exchange to come waits for it before it is published, but one 2^32 exchanges later, if
// until then none of this size was made.
constexpr std::uint32_t flag_at_rest(std::uint32_t epoch, std::uint32_t slot,
                                     std::uint32_t num_slots) {
  const std::uint32_t back = (slot_of(epoch, num_slots) + num_slots - slot) % num_slots;
  return epoch >= back ? epoch - back : last_epoch(num_slots) - (back - epoch - 1);
}

// Where the flags of a slot lie among signals [slots, num_blocks, N]: the first N are block 0's.
struct SlotFlags {
  std::int64_t first;
  std::int64_t count;
};
DCP_HOST_DEVICE constexpr SlotFlags flags_of(std::uint32_t slot, int world_size, int num_blocks) {
  const std::int64_t count = std::int64_t{num_blocks} * world_size;
  return {slot * count, count};
}

// Between which threads flags order stores: those of one GPU, or of all that share memory.
enum class FlagScope : std::uint8_t { kSystem, kGpu };

// An address on each rank. By value in the params of an op: a graph holds the addresses themselves.
inline constexpr int kMaxPeers = 64;
template <class T>
struct PeerPtrs {
  T* at[kMaxPeers];
};

}  // namespace dcp
