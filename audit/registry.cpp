#include "audit/rule.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

constexpr Rule kRules[] = {
    {.name = "stale_pointer", .of_memory = find_stale_pointers},
    {.name = "shared_scratch_released", .of_memory = find_released_scratch},
    {.name = "backing_changed", .of_memory = find_changed_backings},
    {.name = "stale_host_source", .of_memory = find_stale_host_sources},
    {.name = "pool_alias", .of_memory = find_pool_aliases},
    {.name = "rebound_metadata", .of_memory = find_rebound_metadata},
    {.name = "use_after_free", .of_graph = find_uses_after_free},
    {.name = "unordered_access", .of_graph = find_unordered_accesses},
    {.name = "exchange_in_place", .of_graph = find_exchanges_in_place},
    {.name = "cross_ubatch_alias", .of_graph = find_cross_ubatch_aliases},
    {.name = "uninit_read", .of_graph = find_uninit_reads},
    {.name = "unwritten_row_read", .of_graph = find_unwritten_row_reads},
    {.name = "in_place_on_stale_input", .of_graph = find_in_place_on_stale_inputs},
    {.name = "unwritten_output", .of_graph = find_unwritten_outputs},
    {.name = "read_past_end", .of_graph = find_reads_past_end},
    {.name = "slot_reuse_without_ack", .of_graph = find_slot_reuses},
    {.name = "parallel_branches_one_comm", .of_graph = find_parallel_branches},
    {.name = "frozen_host_value", .of_graph = find_frozen_host_values},
    {.name = "undeclared_access", .of_graph = find_undeclared_accesses},
    {.name = "missing_node", .of_ranks = find_missing_nodes},
    {.name = "rank_divergence", .of_ranks = find_rank_divergences},
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

}  // namespace dcp::audit
