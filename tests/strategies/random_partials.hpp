// Partials of all ranks with everything that a combine must bear: empty shards, padding, requests
// without tokens, ranks that report nonsense, weights that vanish, and LSEs far from 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/partials_runner.hpp"

namespace dcp::test {

enum class Storage : std::uint8_t { kContiguous, kHeadPadded, kHeadMajor };

struct PartialsSpec {
  int world_size = 1;
  int heads_per_rank = 2;
  int head_dim = 8;
  DType dtype = DType::kBf16;
  LseTag lse = {};
  Storage storage = Storage::kContiguous;
  std::uint64_t seed = 0;
};

// Five rows: two of a request, none of the next, one each of two more (the last without keys on any
// rank), and one of padding. The same values whatever the storage; what the views do not cover is
// NaN.
PartialsCase random_partials(const PartialsSpec& spec);

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

}  // namespace dcp::test
