// The levels of the check that compute attention in float64: each rank's partial over its own keys,
// the new tokens' state where they are attended to apart, and the whole step over all keys,
// unsharded.
#pragma once

#include "core/data.hpp"
#include "reference/layer_check.hpp"
#include "reference/observation.hpp"
#include "reference/step_geometry.hpp"

namespace dcp {

// Fills `check.partial`, `check.new_tokens`, `check.step` and `check.expected`. Requests are shared
// out to at most two threads.
void check_attention(const StepGeometry& geometry, const InputData& data,
                     const LayerObservation& observation, const CheckOptions& options,
                     LayerCheck& check);

}  // namespace dcp
