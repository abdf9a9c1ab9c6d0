// The strategies in every way that their exchange can be done, and a few partials to run them on.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/strategies/random_partials.hpp"

namespace dcp::test {

inline constexpr DType kDTypes[] = {DType::kFp16, DType::kBf16, DType::kFp32};

// A strategy, and how its exchange is done.
struct StrategyVariant {
  const Strategy* strategy;
  A2aLayout a2a_layout;
  DType reduce_dtype;
  std::string name;

  PartialsOptions options() const {
    return {.a2a_layout = a2a_layout, .reduce_dtype = reduce_dtype};
  }
};

// Every strategy, a2a in both layouts, ag_* with a sum in the dtype and in fp32.
std::vector<StrategyVariant> all_variants(DType dtype);

// Each world size and dtype once, with tags and storages in turn.
std::vector<PartialsSpec> few_specs();

// Calls `body(spec, partials, variant)` for every variant over a few partials.
template <class Body>
void for_each_variant(const Body& body) {
  for (const PartialsSpec& spec : few_specs()) {
    const PartialsCase partials = random_partials(spec);
    for (const StrategyVariant& variant : all_variants(spec.dtype)) {
      SCOPED_TRACE(variant.name + ", data seed " + std::to_string(spec.seed));
      body(spec, partials, variant);
    }
  }
}

// Results of two runs: out and lse of every rank.
void expect_equal_bits(const PartialsResult& a, const PartialsResult& b);

std::vector<std::uint32_t> bits_of(const std::vector<float>& values);

}  // namespace dcp::test
