// Partials of all ranks with everything that a combine must bear: empty shards, padding, requests
// without tokens, ranks that report nonsense, weights that vanish, and LSEs far from 0.
#pragma once

#include <cstdint>

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

// Five rows: two of a request, none of the next, one each of two more (the first of them without
// keys on any rank), and one of padding. The same values whatever the storage; what the views do
// not cover is NaN.
PartialsCase random_partials(const PartialsSpec& spec);

}  // namespace dcp::test
