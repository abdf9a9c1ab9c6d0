#include "harness/vector_check.hpp"

#include <cstring>
#include <stdexcept>

#include "reference/combine_check.hpp"

namespace dcp {

namespace {

struct Variant {
  std::string name;
  A2aLayout a2a_layout;
  DType reduce_dtype;
  DirectForm direct_form = DirectForm::kSteps;
};

std::vector<Variant> variants_of(const Strategy& strategy, DType dtype) {
  std::vector<Variant> variants = {{"", A2aLayout::kInterleaved, dtype}};
  const bool reduces = strategy.name() == "ag_rs" || strategy.name() == "ag_ar";
  if (strategy.name() == "a2a") variants.push_back({"split", A2aLayout::kSplit, dtype});
  if (reduces && dtype != DType::kFp32) {
    variants.push_back({"fp32", A2aLayout::kInterleaved, DType::kFp32});
  }
  if (strategy.name() == "direct") {
    variants.push_back({"fused", A2aLayout::kInterleaved, dtype, DirectForm::kFused});
  }
  return variants;
}

// The stored truth, with the weighted magnitudes of the combine for its tolerance.
std::vector<CombinedRow> right_rows(const VectorCase& test) {
  std::vector<CombinedRow> rows = combine_partials(test.partials);
  for (std::size_t index = 0; index < rows.size(); ++index) {
    rows[index].out = Eigen::Map<const Eigen::ArrayXd>(
        test.truth_out.data() + index * static_cast<std::size_t>(test.partials.head_dim),
        test.partials.head_dim);
    rows[index].lse = test.truth_lse[index];
  }
  return rows;
}

std::uint32_t lane_bits(const std::vector<std::byte>& buffer, DType dtype, std::size_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, buffer.data() + index * size_bytes(dtype), size_bytes(dtype));
  return bits;
}

SendVerdict check_send(const PartialsCase& partials, const PartialsResult& result,
                       const std::vector<std::vector<std::byte>>& want) {
  const auto lanes = static_cast<std::size_t>(partials.head_dim + lse_lanes(partials.dtype));
  const auto heads = static_cast<std::size_t>(partials.heads_per_rank());
  for (std::size_t rank = 0; rank < want.size(); ++rank) {
    const std::vector<std::byte>& got = result.ranks[rank].send;
    for (std::size_t i = 0; i < want[rank].size() / size_bytes(partials.dtype); ++i) {
      const std::uint32_t got_bits = lane_bits(got, partials.dtype, i);
      const std::uint32_t want_bits = lane_bits(want[rank], partials.dtype, i);
      if (got_bits == want_bits) continue;
      const std::size_t row_of_part = i / lanes;
      const auto num_tokens = static_cast<std::size_t>(partials.num_tokens);
      const std::size_t peer = row_of_part / (num_tokens * heads);
      return {WrongLane{.rank = static_cast<int>(rank),
                        .peer = static_cast<int>(peer),
                        .row = static_cast<std::int64_t>(row_of_part / heads % num_tokens),
                        .head = static_cast<int>(peer * heads + row_of_part % heads),
                        .lane = static_cast<int>(i % lanes),
                        .got = got_bits,
                        .want = want_bits}};
    }
  }
  return {};
}

void add_seed_a2a(const VectorCase& test, std::span<const CombinedRow> right,
                  const CombineTolerance& tolerance, VectorVerdict& verdict) {
  if (test.seed.a2a_out.empty()) return;
  PartialsResult stored;
  for (std::size_t rank = 0; rank < test.seed.a2a_out.size(); ++rank) {
    stored.ranks.emplace_back();
    stored.ranks.back().out = test.seed.a2a_out[rank];
    if (!test.seed.a2a_lse.empty()) stored.ranks.back().lse = test.seed.a2a_lse[rank];
  }
  const CombineVerdict seed = check_combined(test.partials, stored, right, tolerance);
  verdict.seed_out = seed.out;
  if (!test.seed.a2a_lse.empty()) verdict.seed_lse = seed.lse;
}

// The seed's reduction adds shares that are rounded already; here they are added exactly.
void add_seed_ag(const VectorCase& test, std::span<const CombinedRow> right,
                 const CombineTolerance& tolerance, VectorVerdict& verdict) {
  const PartialsCase& partials = test.partials;
  if (!test.seed.corrected_out.empty()) verdict.seed_out.emplace();
  if (!test.seed.ag_lse.empty()) verdict.seed_lse.emplace();
  for (std::size_t index = 0; index < right.size(); ++index) {
    const WantedRow want = wanted_row(right[index], tolerance);
    ElementPlace at{.row = static_cast<std::int64_t>(index) / partials.num_heads,
                    .head = static_cast<int>(index) % partials.num_heads};
    if (verdict.seed_lse) {
      verdict.seed_lse->add(at, test.seed.ag_lse[index], want.lse, want.lse_tolerance);
    }
    for (int i = 0; verdict.seed_out && i < partials.head_dim; ++i) {
      const std::size_t element = index * static_cast<std::size_t>(partials.head_dim) + i;
      double sum = 0;
      for (const auto& share : test.seed.corrected_out) {
        sum += load_element(share.data(), partials.dtype, element);
      }
      at.element = i;
      verdict.seed_out->add(at, sum, want.out[i], want.out_tolerance[i]);
    }
  }
}

VectorVerdict check_variant(const VectorCase& test, std::span<const CombinedRow> right,
                            const Strategy& strategy, const Variant& variant,
                            const VectorOptions& options) {
  VectorVerdict verdict;
  verdict.strategy = strategy.name();
  verdict.variant = variant.name;
  const CombineTolerance tolerance =
      combine_tolerance(strategy, test.partials, variant.reduce_dtype);
  try {
    const PartialsResult result = run_partials(strategy, test.partials,
                                               {.backend = options.backend,
                                                .a2a_layout = variant.a2a_layout,
                                                .reduce_dtype = variant.reduce_dtype,
                                                .direct_form = variant.direct_form,
                                                .return_lse = true,
                                                .seed = options.seed,
                                                .num_replays = 1});
    verdict.ours = check_combined(test.partials, result, right, tolerance);
    const bool packs = strategy.name() == "a2a" && variant.name.empty();
    if (packs && !test.seed.send.empty()) {
      verdict.send = check_send(test.partials, result, test.seed.send);
    }
  } catch (const std::runtime_error& error) {  // Failure, StepError or ApiError
    verdict.failure = error.what();
  }
  if (!variant.name.empty()) return verdict;
  if (strategy.name() == "a2a") {
    add_seed_a2a(test, right, tolerance, verdict);
  } else if (tolerance.rounding == OutputRounding::kTerms) {
    add_seed_ag(test, right, tolerance, verdict);
  }
  return verdict;
}

}  // namespace

std::vector<VectorVerdict> check_vector_case(const VectorCase& test,
                                             std::span<const Strategy* const> strategies,
                                             const VectorOptions& options) {
  const std::vector<CombinedRow> right = right_rows(test);
  std::vector<VectorVerdict> verdicts;
  for (const Strategy* strategy : strategies) {
    for (const Variant& variant : variants_of(*strategy, test.partials.dtype)) {
      verdicts.push_back(check_variant(test, right, *strategy, variant, options));
    }
  }
  return verdicts;
}

}  // namespace dcp
