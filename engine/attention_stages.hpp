// The stages of attention: each rank's partial over its own keys and, where new tokens are attended
// to apart, the state of the new tokens and its merge with the combined state of the context.
#pragma once

#include <memory>

#include "core/scenario.hpp"
#include "engine/query_stage.hpp"

namespace dcp {

// Leaves the partials. With more than one split of the local keys, attention leaves split_out
// [S, T, H, D] and split_lse [S, T, H], fp32, and split_combine makes the partials of them.
std::unique_ptr<Stage> make_attention_stage(Attention attention, const QueryStage& query);

// GQA: attention of the new tokens among themselves, for the heads that the rank keeps.
std::unique_ptr<Stage> make_new_attention_stage(const QueryStage& query, bool keeps_all_heads);

// Merges the states of context and new tokens into out and lse.
std::unique_ptr<Stage> make_merge_stage(bool keeps_all_heads);

}  // namespace dcp
