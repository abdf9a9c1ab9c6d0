#include "core/kinds.hpp"

#include <algorithm>

namespace dcp {

namespace {

constexpr Kind kHazards[] = {
    {"stale_pointer", "a node holds an address that the buffer has left since capture"},
    {"pool_alias", "a pool gave memory that a captured graph still uses to someone else"},
    {"use_after_free", "a node uses memory that was freed"},
    {"cross_ubatch_alias", "two ubatches use the same bytes without an order between them"},
    {"unordered_access", "two nodes touch the same bytes, one writes, and no edge orders them"},
    {"rebound_metadata", "the metadata that is live is not the buffer that was captured"},
    {"stale_derived_metadata",
     "a value derived from metadata was not computed again for this batch"},
    {"frozen_host_value", "a value that changes per batch was frozen into the graph"},
    {"stale_host_source", "a captured copy reads host memory that has changed hands"},
    {"backing_changed", "the address is the same, the memory behind it is not"},
    {"shared_scratch_released", "scratch that several graphs share was given back"},
    {"uninit_read", "a node reads bytes that nobody wrote"},
    {"stale_tail", "metadata past the batch keeps an earlier batch's values"},
    {"unwritten_row_read", "a row is read that the producer did not write"},
    {"unwritten_output", "an output row is left as it was"},
    {"write_to_reserved_slot", "a padded token writes into the cache"},
    {"read_past_end", "a node may read past the end of its buffer"},
    {"slot_reuse_without_ack", "an exchange slot is written before its reader is known to be done"},
    {"missing_node", "an operation of the step is not in the graph"},
    {"rank_divergence", "ranks captured different sequences of exchanges"},
    {"lse_precision", "the lse is carried in a type that loses what the combine needs"},
    {"lse_layout", "the lse's layout is not the one that the consumer reads"},
    {"payload_canonicalised", "lanes that carry bits were moved as numbers"},
    {"non_finite_partial", "a partial with weight above 0 is not finite"},
    {"in_place_on_stale_input", "an operation in place works on an input that it already changed"},
    {"not_bit_stable", "the bits depend on a value that should not matter"},
    {"missing_edge", "a node lacks the edge that its inputs need"},
    {"parallel_branches_one_comm", "two branches without an order use one communicator"},
    {"undeclared_access", "an op's arguments and the memory that it declares do not agree"},
};

constexpr Kind kFailures[] = {
    {"deadlock", "nothing can run, and someone still waits"},
    {"wait_timeout", "a bounded wait on the device expired"},
    {"mismatch", "a result differs from the reference by more than its tolerance"},
    {"canary_damaged", "a mark was overwritten"},
    {"rank_lost", "a rank ended early"},
    {"illegal_address", "an operation would touch memory outside its buffer"},
};

constexpr Kind kErrors[] = {
    {"capacity", "the step needs more rows or bytes than the workspace has"},
    {"qsl_not_monotone", "query_start_loc does not start at 0 or decreases"},
    {"qsl_without_seq_lens", "query_start_loc and seq_lens must come together and fit"},
    {"seq_len_below_query_len", "a request is shorter than its own query tokens"},
    {"negative_local_len", "a length, or a rank's share of one, is below 0"},
    {"local_lens_mismatch", "local_seq_lens do not hold one length per request, or miss its sum"},
    {"heads_not_divisible",
     "the group's heads cannot be divided by the world size, or its KV heads are no whole number"},
    {"ubatch_out_of_range", "a ubatch that the step does not have"},
    {"workspace_locked", "the workspace may not grow any more"},
    {"alloc_during_capture", "an allocation that a capture does not allow"},
    {"capture_illegal_call", "a call that is not permitted during capture"},
    {"capture_pageable_h2d", "a copy from pageable host memory during capture"},
    {"capture_invalidated_by_other_thread", "another thread's call ended the capture"},
    {"comm_not_initialised", "an exchange before its communicator is ready"},
    {"rendezvous_during_capture", "ranks would have to meet on the host during capture"},
    {"jit_during_capture", "a kernel would have to be compiled or loaded during capture"},
    {"replay_exceeds_captured_bound", "the batch is beyond a bound that was frozen at capture"},
    {"world_mismatch", "ranks disagree about the size of the group"},
    {"lse_base_mismatch", "two lse tensors of different base meet"},
    {"lse_dtype", "the lse's type is not the one that was agreed on"},
    {"lse_shape", "the lse's shape is not [rows, heads]"},
    {"alignment", "an address or size is not aligned as the operation needs"},
    {"unsupported_dtype", "an operation does not take this type"},
    {"backend_unavailable",
     "this build or machine has no such backend, or an operation no body for it"},
    {"no_such_graph", "no graph of this name was captured"},
    {"no_such_buffer", "no buffer of this name, graph, ubatch or row exists"},
    {"graph_in_flight", "the graph is still running"},
    {"step_divergence", "ranks were given different steps"},
    {"layout_divergence", "ranks disagree about the layout of an exchange"},
    {"unjoined_fork", "a capture ends with a stream that was not joined"},
    {"comm_has_live_graphs", "a communicator is destroyed before the graphs that captured it"},
};

constexpr Kind kStrategies[] = {
    {"ag_rs", "all-gather of lse, correction, reduce-scatter of out over heads"},
    {"ag_ar", "all-gather of lse, correction, all-reduce of out: every rank gets all heads"},
    {"a2a", "out and lse packed into one all-to-all, then combine"},
    {"direct", "rows stored straight into the peers' slots, flags, then combine"},
};

constexpr Kind kSettable[] = {
    {"epoch", "the device counter of exchanges, on all ranks; only when drained"},
    {"lse_base", "what attention hands over from here on: e or 2"},
    {"lse_dtype", "what attention hands over from here on: fp32, fp16 or bf16"},
    {"slot_mapping", "where the next step's new tokens go"},
    {"block_table", "the pages of the next step"},
    {"strategy", "the combine strategy, of the step's rank"},
    {"ubatch", "the ubatch that the next exchange claims to be"},
    {"keep", "a metadata buffer that the next batch is not loaded into"},
    {"keep_tail", "a metadata buffer whose tail the next batch does not reset"},
    {"num_requests", "the number of requests that the next capture or eager step passes by value"},
    {"max_seq_len", "the length of a request that the next capture is made for, at most"},
    {"workspace_ubatch", "whose workspace all ubatches of the next capture or eager step use"},
    {"drop_edge", "an order that the next capture or eager step lacks: fork, join or append"},
    {"load_stream", "the stream that the metadata of the next replay goes up on"},
};

constexpr Kind kBuffers[] = {
    {"workspace", "the exchange's memory as one block"},
    {"send", "packed rows on their way out"},
    {"recv", "packed rows that came in"},
    {"payload", "the direct exchange's slots of rows"},
    {"lines", "the direct exchange's slots of lines, for few rows"},
    {"lse_slots", "the direct exchange's slots of lse"},
    {"signals", "the direct exchange's flags"},
    {"out", "the combined rows"},
    {"lse", "the combined lse"},
    {"partial_out", "one rank's attention output"},
    {"partial_lse", "one rank's attention lse"},
    {"q", "the rank's queries"},
    {"q_gathered", "the queries of all heads of the group"},
    {"kv_slots", "the direct KV gather's slots of rows"},
    {"kv_gathered", "the rows of all ranks' prefix chunks"},
    {"kv_cache", "the paged cache"},
    {"block_table", "pages of each request"},
    {"slot_mapping", "where each new token goes"},
    {"seq_lens", "local lengths"},
    {"query_start_loc", "first row of each request"},
};

}  // namespace

std::span<const Kind> hazard_kinds() { return kHazards; }
std::span<const Kind> failure_kinds() { return kFailures; }
std::span<const Kind> error_kinds() { return kErrors; }
std::span<const Kind> strategy_kinds() { return kStrategies; }
std::span<const Kind> settable_values() { return kSettable; }
std::span<const Kind> buffer_kinds() { return kBuffers; }

bool contains(std::span<const Kind> kinds, std::string_view name) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const Kind& kind) { return kind.name == name; });
}

}  // namespace dcp
