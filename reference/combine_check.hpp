// The levels of the check that need no attention: the combine of partials that are there.
#pragma once

#include "core/scenario.hpp"
#include "reference/combine.hpp"
#include "reference/layer_check.hpp"
#include "reference/observation.hpp"
#include "reference/step_geometry.hpp"
#include "reference/wanted_row.hpp"

namespace dcp {

// What a strategy should make of partials whose float64 combine is `combined`: within the
// strategy's tolerance, and exact where all of them are empty.
WantedRow wanted_row(const CombinedRow& combined, const CombineTolerance& tolerance);

// Outputs against the float64 combine of the partials that the ranks produced; where new tokens are
// attended to apart, that is the context's state.
void check_combine(const StepGeometry& geometry, const LayerObservation& observation,
                   Comparison& combine);

// Outputs against the float64 merge of the two states that each rank produced.
void check_merge(const StepGeometry& geometry, const LayerObservation& observation,
                 Comparison& merge);

// Float64 combine of a row of `data: given`, rounded to the dtypes of partials as an engine would
// hold them.
CombinedRow combine_given(const StepGeometry& geometry, const DataSpec& given, std::int64_t row,
                          int head);

// Outputs against the combine of the given partials; fills `check.expected`.
void check_given_step(const StepGeometry& geometry, const DataSpec& given,
                      const LayerObservation& observation, LayerCheck& check);

}  // namespace dcp
