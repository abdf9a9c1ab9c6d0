// The stages of a layer around query and attention: kv_append, combine and out_proj.
#pragma once

#include <memory>

#include "engine/query_stage.hpp"

namespace dcp {

std::unique_ptr<Stage> make_kv_append_stage();

// Data of kind given: copies the given partials to where attention would leave its own.
std::unique_ptr<Stage> make_given_partials_stage();

std::unique_ptr<Stage> make_combine_stage(const Strategy& strategy);

// The same for partials over the context alone, whose result is one of two states to be merged.
std::unique_ptr<Stage> make_context_combine_stage(const Strategy& strategy);

// Makes the next layer's query from the combined rows.
std::unique_ptr<Stage> make_out_proj_stage(const Strategy& strategy, const QueryStage& query);

}  // namespace dcp
