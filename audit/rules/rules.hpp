// The rules, as registry.cpp lists them.
#pragma once

#include "audit/rule.hpp"

namespace dcp::audit {

void find_stale_pointers(const GraphScope& scope, Findings& found);
void find_released_scratch(const GraphScope& scope, Findings& found);
void find_changed_backings(const GraphScope& scope, Findings& found);
void find_stale_host_sources(const GraphScope& scope, Findings& found);
void find_uses_after_free(const GraphScope& scope, Findings& found);
void find_pool_aliases(const GraphScope& scope, Findings& found);
void find_rebound_metadata(const GraphScope& scope, Findings& found);
void find_unordered_accesses(const GraphScope& scope, Findings& found);
void find_cross_ubatch_aliases(const GraphScope& scope, Findings& found);
void find_uninit_reads(const GraphScope& scope, Findings& found);
void find_unwritten_row_reads(const GraphScope& scope, Findings& found);
void find_in_place_on_stale_inputs(const GraphScope& scope, Findings& found);
void find_unwritten_outputs(const GraphScope& scope, Findings& found);
void find_reads_past_end(const GraphScope& scope, Findings& found);
void find_exchanges_in_place(const GraphScope& scope, Findings& found);
void find_slot_reuses(const GraphScope& scope, Findings& found);
void find_parallel_branches(const GraphScope& scope, Findings& found);
void find_frozen_host_values(const GraphScope& scope, Findings& found);
void find_undeclared_accesses(const GraphScope& scope, Findings& found);
void find_missing_nodes(std::span<const GraphScope> ranks, Findings& found);
void find_rank_divergences(std::span<const GraphScope> ranks, Findings& found);

}  // namespace dcp::audit
