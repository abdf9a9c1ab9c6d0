// Symmetric buffers of all ranks: allocated together, and brought to the state in which exchanges
// begin.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/world.hpp"
#include "strategies/buffers.hpp"

namespace dcp {

// The plan's symmetric buffers, one set for each rank. StepError backend_unavailable.
std::vector<BufferSet> allocate_symmetric(World& world, const BufferPlan& plan);

// What a buffer of flags, lines or state holds where the last exchange was `epoch`; nothing for
// rows.
std::vector<std::uint32_t> content_at(const BufferSpec& spec, std::uint32_t epoch,
                                      std::uint32_t num_slots);

// The set as it is named here, with the addresses of all ranks: `sets` are those of all ranks.
void add_symmetric(const BufferPlan& plan, int rank, std::span<const BufferSet* const> sets,
                   BufferSet& to);

}  // namespace dcp
