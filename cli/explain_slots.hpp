// Which slot the exchanges of a graph use, and where its epochs are after some replays.
#pragma once

#include <iosfwd>

#include "harness/explanation.hpp"

namespace dcp {

// Nothing where the graph makes no exchanges by stores to the peers' memory.
void print_slots(std::ostream& out, const ExplainedGraph& graph);

// Slots of the exchanges of a replay that begins after `epoch` of them.
std::vector<std::int64_t> slots_of_replay(const ExplainedExchange& exchange, std::int64_t epoch);

}  // namespace dcp
