// The check of one layer of one step, level by level: partial, combine, whole step. The first level
// that fails names what broke: the attention, the combine, or, where both are right, the keys that
// the ranks attend to. Where new tokens are attended to apart, partial and combine are those of the
// context, and two levels come between combine and step: the new tokens' state, and the merge.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/data.hpp"
#include "core/scenario.hpp"
#include "reference/compare.hpp"
#include "reference/observation.hpp"
#include "reference/step_geometry.hpp"

namespace dcp {

struct CheckOptions {
  bool partial = true;             // never done under `data: given`
  bool partial_empty_rows = true;  // demand lse -inf of a rank's empty rows; false where the
                                   // attention stage is stubbed
  bool step = true;
  DType probability_dtype = DType::kFp32;  // what attention rounds probabilities to
};

// The right result of a layer: unsharded attention or, under `data: given`, the combine of the
// given partials. Rows without keys: out 0, lse -inf.
struct LayerResult {
  std::vector<double> out;            // [T, H, D]
  std::vector<double> lse;            // [T, H] in the scenario's base
  std::vector<double> out_tolerance;  // [T, H, D] how far the whole step may be off
  std::vector<double> lse_tolerance;  // [T, H]
};

struct LayerCheck {
  Comparison partial;
  Comparison combine;
  Comparison new_tokens;  // these two: only where new tokens are attended to apart
  Comparison merge;
  Comparison step;
  LayerResult expected;  // empty where neither partial nor step is checked

  bool passed() const {
    return partial.passed() && combine.passed() && new_tokens.passed() && merge.passed() &&
           step.passed();
  }
};

// The reference of one computing step, for any of its layers, in any order and from several
// threads. `scenario` must outlive it; the batch must be legal.
class StepReference {
 public:
  // `num_rows`: rows of the graph, padding included. `strategy`: the one that runs this step.
  StepReference(const Scenario& scenario, const Batch& batch, std::int64_t num_rows,
                std::string_view strategy);

  // Throws std::invalid_argument where a tensor of the observation has another size. A rank that
  // did not take part is not checked, and then the combine is not either.
  LayerCheck check_layer(const LayerObservation& observation,
                         const CheckOptions& options = {}) const;

  // Rows whose right result is out 0 and lse -inf, ascending.
  std::vector<std::int64_t> empty_rows() const;

 private:
  StepGeometry geometry_;
  InputData data_;
  const DataSpec& given_;
};

}  // namespace dcp
