// What a strategy made of given partials, against the right result.
#pragma once

#include <span>
#include <vector>

#include "harness/partials_runner.hpp"
#include "reference/combine.hpp"
#include "reference/compare.hpp"
#include "reference/tolerance.hpp"

namespace dcp {

// Whether the row lies past the last boundary, or its request has no key on the rank.
bool is_masked_by_request(const PartialsCase& partials, int rank, std::int64_t row);

// The float64 combine of every row and head, [T * H]. A row that is masked on a rank counts as
// empty there: past the last boundary, or of a request without local keys.
std::vector<CombinedRow> combine_partials(const PartialsCase& partials);

// How far `strategy` may be off when its sum is taken in `reduce_dtype`.
CombineTolerance combine_tolerance(const Strategy& strategy, const PartialsCase& partials,
                                   DType reduce_dtype);

struct CombineVerdict {
  Comparison out;
  Comparison lse;

  bool passed() const { return out.passed() && lse.passed(); }
};

// Every head on every rank that keeps it; out and lse where they are there. Places name the rank,
// and heads of the group.
CombineVerdict check_combined(const PartialsCase& partials, const PartialsResult& result,
                              std::span<const CombinedRow> right,
                              const CombineTolerance& tolerance);

}  // namespace dcp
