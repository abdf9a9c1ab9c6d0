// How often a graph advances the epochs of its exchanges by stores to the peers' memory.
#pragma once

#include <vector>

#include "engine/engine.hpp"
#include "harness/explanation.hpp"
#include "runtime/graph_record.hpp"

namespace dcp {

// Of the first ubatch; the others count the same, each for itself.
std::vector<ExplainedExchange> exchanges_of(const GraphRecord& record, const RankStep& step);

}  // namespace dcp
