#include "core/step_words.hpp"

namespace dcp {

namespace {

constexpr Kind kOperations[] = {
    {"attention", "mla_attention or gqa_attention, whichever the step has"},
    {"combine", "a2a_combine, lse_correct, direct_exchange or direct_lines"},
    {"publish", "where a direct exchange sends its flags"},
    {"wait", "where a direct exchange waits for the peers' flags"},
    {"read", "where a direct exchange takes the rows"},
    {"kv_append", "the new tokens' keys and values go into the cache"},
    {"mla_attention", "attention of a rank's own keys, MLA"},
    {"gqa_attention", "attention of a rank's own keys, GQA"},
    {"split_combine", "the splits of a rank's keys become one partial"},
    {"new_attention", "attention of the new tokens among themselves"},
    {"merge_states", "context and new tokens become one"},
    {"out_proj", "what reads the step's rows, and starts the next layer"},
    {"empty_shard_mask", "lse -inf in rows without a key on the rank"},
    {"lse_correct", "a rank's rows scaled by their weight"},
    {"round_rows", "sums in fp32 become rows of the scenario's type"},
    {"a2a_pack", "out and lse into one buffer"},
    {"a2a_combine", "the received rows weighted and summed"},
    {"all_gather", "the collective"},
    {"reduce_scatter", "the collective"},
    {"all_reduce", "the collective"},
    {"all_to_all", "the collective"},
    {"memcpy", "a copy of during_capture"},
    {"direct_advance", "the next epoch of the combine"},
    {"direct_dispatch", "rows into the peers' slots"},
    {"direct_publish", "the combine's flags"},
    {"direct_wait", "until the peers' flags are there"},
    {"direct_read", "the slots weighted and summed"},
    {"direct_exchange", "the combine in one node: form fused"},
    {"direct_lines", "the same of one or two rows"},
    {"direct_query_advance", "the next epoch of the query gather"},
    {"direct_query_store", "query heads into the peers' buffers"},
    {"direct_query_publish", "the query gather's flags"},
    {"direct_query_wait", "until the peers' queries are there"},
    {"direct_query_send", "store and publish in one node: form fused"},
    {"direct_kv_advance", "the next epoch of the KV gather"},
    {"direct_kv_store", "KV rows into the peers' slots"},
    {"direct_kv_publish", "the KV gather's flags"},
    {"direct_kv_wait", "until the peers' KV rows are there"},
    {"direct_kv_read", "KV rows out of the slots"},
    {"direct_kv_send", "store and publish in one node: form fused"},
    {"direct_kv_take", "wait and read in one node: form fused"},
};

constexpr Kind kCaptureCalls[] = {
    {"cudaStreamSynchronize", "of the capturing stream"},
    {"cudaStreamQuery", "of the capturing stream"},
    {"cudaEventSynchronize", "of an event outside of the capture"},
    {"cudaEventQuery", "of an event outside of the capture"},
    {"cudaDeviceSynchronize", "of the whole device"},
    {"cudaMalloc", "an allocation"},
    {"cudaFree", "of what an earlier allocation took"},
    {"cudaMallocHost", "pinned memory"},
    {"cudaMemcpy", "a copy that waits"},
    {"cudaMemcpyAsync", "a copy that becomes a node: needs from and to"},
};

constexpr Kind kMetadata[] = {
    {"query_start_loc", "first row of each request"},
    {"seq_lens", "local lengths"},
    {"causal_bounds", "keys that each row sees, of the rank's own"},
    {"empty_ranks", "the ranks on which a row has no key"},
    {"block_table", "pages of each request"},
    {"slot_mapping", "where each new token goes"},
    {"new_seq_lens", "lengths of the new tokens, where they are attended to apart"},
    {"new_bounds", "new tokens that each row sees"},
    {"new_first_rows", "first new token of each row's request"},
};

}  // namespace

std::span<const Kind> operation_words() { return kOperations; }
std::span<const Kind> capture_calls() { return kCaptureCalls; }
std::span<const Kind> metadata_words() { return kMetadata; }

}  // namespace dcp
