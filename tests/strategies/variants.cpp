#include "tests/strategies/variants.hpp"

#include <bit>

#include "strategies/registry.hpp"

namespace dcp::test {

std::vector<StrategyVariant> all_variants(DType dtype) {
  std::vector<StrategyVariant> variants;
  for (const Strategy* strategy : all_strategies()) {
    const std::string name(strategy->name());
    variants.push_back({strategy, A2aLayout::kInterleaved, dtype, name});
    if (name == "a2a") variants.push_back({strategy, A2aLayout::kSplit, dtype, name + " split"});
    if (name == "ag_rs" || name == "ag_ar") {
      variants.push_back({strategy, A2aLayout::kInterleaved, DType::kFp32, name + " fp32"});
    }
  }
  return variants;
}

std::vector<PartialsSpec> few_specs() {
  std::vector<PartialsSpec> specs;
  for (const int world_size : {1, 2, 3, 8}) {
    for (const DType dtype : kDTypes) {
      const std::uint64_t seed = specs.size() + 1;
      specs.push_back({.world_size = world_size,
                       .head_dim = 24,
                       .dtype = dtype,
                       .lse = {seed % 2 == 0 ? LseBase::kTwo : LseBase::kE, kDTypes[seed / 2 % 3]},
                       .storage = static_cast<Storage>(seed % 3),
                       .seed = seed});
    }
  }
  return specs;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

void expect_equal_bits(const PartialsResult& a, const PartialsResult& b) {
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    EXPECT_TRUE(a.ranks[rank].out == b.ranks[rank].out) << "out of rank " << rank;
    EXPECT_TRUE(bits_of(a.ranks[rank].lse) == bits_of(b.ranks[rank].lse)) << "lse of rank " << rank;
  }
}

}  // namespace dcp::test
