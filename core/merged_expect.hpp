// What a step is held to under one strategy: its `expect` with the strategy's own part laid over
// it.
#pragma once

#include <string_view>

#include "core/scenario.hpp"

namespace dcp {

// What `own` names takes the place of what `expect` has: lists as a whole, rows one by one.
void lay_over(Expect& expect, const Expect& own);

// The step's own expectation, without those of the steps that it holds together. Without `expect`:
// nothing but a result that is right.
Expect own_expectation_of(const Step& step, std::string_view strategy);

// The same with those of the steps that it holds together laid over it.
Expect expectation_of(const Step& step, std::string_view strategy);

// Whether a failure of this kind is found in a result: any other ends the step without one.
bool leaves_result(std::string_view failure_kind);

}  // namespace dcp
