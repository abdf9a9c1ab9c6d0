// Whether a step came up to what it is held to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/merged_expect.hpp"
#include "harness/report.hpp"
#include "reference/layer_check.hpp"

namespace dcp {

// Whether the step's numbers are compared with the reference: a named hazard, failure or error
// lifts that.
bool checks_reference(const Expect& expect);

// Whether the step is to miss the reference. Its numbers are compared then: that they are right is
// what falls short.
bool expects_mismatch(const Expect& expect);

// Whether the step says what rows are: it is held to that even where the reference is not asked.
bool names_values(const Expect& expect);

// Whether the numbers of the step count: a step with a hazard may be right by chance.
bool is_held_to_reference(const Expect& expect, const StepReport& report);

// The last layer's outputs of one step, gathered over ranks.
struct StepOutput {
  std::int64_t rows = 0;  // before padding
  int num_heads = 0;
  std::vector<float> out = {};  // [T, H, D]
  std::vector<float> lse = {};  // [T, H], empty where not returned
  std::vector<bool> held = {};  // [H] whether a rank that took part holds the head
};

// Adds a line to `problems` for every row of expect.out and expect.lse that the output misses by
// more than the tolerance of the whole step, and for each rank's copy. `right` is the reference's.
void compare_expected_values(const Expect& expect, const StepOutput& output,
                             const LayerResult& right, std::vector<std::string>& problems);

// Rows whose output is exactly 0 and whose LSE is exactly -inf in every head.
std::vector<std::int64_t> observed_empty_rows(const StepOutput& output, std::int64_t num_rows);

// "stale_pointer, graph g4, rank 0, buffer workspace@1: ...", with what to do.
std::string hazard_text(const audit::Finding& hazard);

// Adds a line to the report's problems for every hazard that is not expected, and for every
// expected one that no hazard matches.
// A step that expects a mismatch, and names no hazard, need not name what explains it.
void hold_to_hazards(const Expect& expect, StepReport& report);

// The same of failures. The graph of a failure is the step's.
void hold_to_failures(const Expect& expect, StepReport& report);

// "[0, 3]".
std::string list_text(const std::vector<std::int64_t>& values);

}  // namespace dcp
