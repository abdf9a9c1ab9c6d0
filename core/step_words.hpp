// Words that single verbs take: what a misspelt one is told from before anything runs. Whether the
// scenario at hand has what a word names is seen when the step runs.
#pragma once

#include "core/kinds.hpp"

namespace dcp {

// What `skip` and `throw` name: every op and collective of a step, and the words for several.
std::span<const Kind> operation_words();

// What `during_capture` calls.
std::span<const Kind> capture_calls();

// What `keep` and `keep_tail` of `set` name.
std::span<const Kind> metadata_words();

}  // namespace dcp
