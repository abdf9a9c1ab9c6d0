// Bytes that a world takes in this machine's memory, known before anything is allocated.
#pragma once

#include <vector>

#include "core/scenario.hpp"
#include "engine/capacity.hpp"
#include "engine/step_plan.hpp"
#include "engine/ubatches.hpp"

namespace dcp {

// Persistent inputs of all ranks: cache, new keys and values, queries, prefix chunks, block tables,
// and workspaces that are fixed.
double input_bytes(const Scenario& scenario, const StepPlan& plan, const Capacity& capacity);

// Of them, the chunks that kv_gather moves.
double chunk_bytes(const Scenario& scenario);

// Buffers of one step on all ranks.
double step_bytes(const Scenario& scenario, const StepPlan& plan,
                  const std::vector<Ubatch>& ubatches);

// Of a graph of so many nodes on each rank: what is written down of them, and what the audit asks
// about their order. The record stays when the graph goes.
double record_bytes(const Scenario& scenario, std::size_t num_nodes);

// What reads the results of a step of this shape and holds them against the reference: one layer of
// all ranks decoded to float, its right values in double, and the output that a later step may be
// compared with.
double check_bytes(const Scenario& scenario, const StepShape& shape);

}  // namespace dcp
