// What the audit is given of a run: the runtime's graphs and ledgers, the engine's buffers, as the
// audit's plain data.
#pragma once

#include <string>
#include <vector>

#include "audit/record.hpp"
#include "engine/engine.hpp"
#include "runtime/graph_record.hpp"

namespace dcp {

// Adds what the ledger has and the record has not, and ends what has ended since. `step`: of the
// scenario, in which that happened.
void follow_ledger(const Ledger& ledger, int step, audit::RankRecord& rank);

std::vector<audit::Binding> bindings_of(const std::vector<NamedBuffer>& buffers);

// The graph of a step on a rank. `plan`: what the step enqueues.
audit::Graph graph_record(const EngineStep& step, const GraphRecord& record,
                          std::vector<audit::Binding> bindings, const std::vector<PlannedOp>& plan);

audit::Access audit_access(const Access& access);

}  // namespace dcp
