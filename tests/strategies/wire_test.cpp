// What the strategies put on the wire.
#include <gtest/gtest.h>

#include <cstring>

#include "comm/simulated/communicator.hpp"
#include "kernels/direct_dispatch.hpp"
#include "strategies/registry.hpp"
#include "tests/strategies/variants.hpp"

namespace dcp::test {
namespace {

// What one rank sends in a call, by the algorithms that move the fewest bytes.
std::size_t bytes_sent(const CollectiveOp::Params& call, int world_size) {
  const auto peers = static_cast<std::size_t>(world_size - 1);
  const std::size_t message = static_cast<std::size_t>(call.count) * size_bytes(call.dtype);
  if (call.kind != CollectiveKind::kAllReduce) return peers * message;
  return 2 * peers * message / static_cast<std::size_t>(world_size);
}

// Stores [at, at + size) of an op that are not in the rank's own part.
std::size_t bytes_stored(const GraphNode& node) {
  DirectDispatch::Params params;
  std::memcpy(&params, node.params.data(), sizeof(params));
  std::vector<Access> accesses;
  node.op->accesses(&params, accesses);
  std::size_t sum = 0;
  for (const Access& access : accesses) {
    if (access.mode == Mode::kWrite) sum += access.size_bytes / params.num_slots;
  }
  const auto ranks = static_cast<std::size_t>(params.world_size);
  return sum / ranks * (ranks - 1);
}

std::size_t bytes_sent(const GraphRecord& graph, int world_size) {
  std::size_t sum = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.op == &kOpInfo<DirectDispatch>) sum += bytes_stored(node);
    if (node.op != &kOpInfo<CollectiveOp>) continue;
    CollectiveOp::Params call;
    std::memcpy(&call, node.params.data(), sizeof(call));
    sum += bytes_sent(call, world_size);
  }
  return sum;
}

std::vector<std::string> names_of(const GraphRecord& graph) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes) {
    if (node.op != nullptr && node.op != &kOpInfo<CollectiveOp>) names.emplace_back(node.op->name);
  }
  return names;
}

// T*H*4 bytes of lse to every peer, and (N-1)/N of T*H*D elements once or twice; or packed rows.
std::size_t egress_formula(const PartialsCase& p, const StrategyVariant& variant) {
  const auto n = static_cast<std::size_t>(p.world_size);
  const auto rows = static_cast<std::size_t>(p.num_tokens * p.num_heads);
  const auto head_dim = static_cast<std::size_t>(p.head_dim);
  if (variant.strategy->name() == "a2a" || variant.strategy->name() == "direct") {
    return (n - 1) * rows * (head_dim * size_bytes(p.dtype) + 4) / n;
  }
  const std::size_t passes = variant.strategy->name() == "ag_ar" ? 2 : 1;
  const std::size_t payload = rows * head_dim * size_bytes(variant.reduce_dtype);
  return (n - 1) * rows * 4 + passes * (n - 1) * payload / n;
}

// [N, T, h] rows of the payload's bits, then those of the fp32 lse, low half first; -inf in rows
// that are masked on the sender, whatever the partial reports. Contiguous partials.
std::vector<std::byte> expected_send(const PartialsCase& partials, const RankPartials& rank) {
  std::vector<std::byte> send;
  const auto append = [&send](const void* data, std::size_t count) {
    const auto* bytes = static_cast<const std::byte*>(data);
    send.insert(send.end(), bytes, bytes + count);
  };
  const std::size_t row_bytes =
      static_cast<std::size_t>(partials.head_dim) * size_bytes(partials.dtype);
  for (int first = 0; first < partials.num_heads; first += partials.heads_per_rank()) {
    for (std::int64_t token = 0; token < partials.num_tokens; ++token) {
      const bool is_padding = token == 4;
      const bool is_masked = is_padding || rank.seq_lens[token < 2 ? 0 : token] == 0;
      for (int head = first; head < first + partials.heads_per_rank(); ++head) {
        const auto row = static_cast<std::size_t>(token * partials.num_heads + head);
        constexpr std::uint32_t kMinusInfinity = 0xFF800000u;
        append(rank.out.data() + row * row_bytes, row_bytes);
        append(is_masked ? static_cast<const void*>(&kMinusInfinity)
                         : rank.lse.data() + row * sizeof(float),
               sizeof(float));
      }
    }
  }
  return send;
}

TEST(StrategyWire, EgressIsWhatTheExchangeMoves) {
  for_each_variant([](const auto&, const PartialsCase& partials, const StrategyVariant& variant) {
    PartialsOptions options = variant.options();
    options.num_replays = 1;
    const PartialsResult result = run_partials(*variant.strategy, partials, options);
    EXPECT_EQ(result.egress_bytes, egress_formula(partials, variant));
    for (const RankCombined& rank : result.ranks) {
      EXPECT_EQ(bytes_sent(*rank.graph, partials.world_size), result.egress_bytes);
    }
  });
}

TEST(StrategyWire, TheAllToAllSendsTheBitsOfPartialsAndMaskedLses) {
  for (const DType dtype : kDTypes) {
    const PartialsCase partials = random_partials({.world_size = 3, .dtype = dtype, .seed = 8});
    const PartialsResult result = run_partials(a2a_strategy(), partials, {});
    for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
      EXPECT_TRUE(result.ranks[rank].send == expected_send(partials, partials.ranks[rank]))
          << name(dtype) << ", rank " << rank;
    }
  }
}

// The interleaved and the split wire carry the same rows.
TEST(StrategyWire, TheLayoutOfTheWireDoesNotChangeABit) {
  for (const PartialsSpec& spec : few_specs()) {
    const PartialsCase partials = random_partials(spec);
    const Strategy& a2a = a2a_strategy();
    expect_equal_bits(run_partials(a2a, partials, {.a2a_layout = A2aLayout::kInterleaved}),
                      run_partials(a2a, partials, {.a2a_layout = A2aLayout::kSplit}));
  }
}

// Only an lse that is not fp32 [T, H] without gaps is copied first.
TEST(Wire, AnLseIsSentWithoutALaunchOfItsOwn) {
  const auto launches = [](const char* strategy, PartialsSpec spec) {
    spec.world_size = 2;
    spec.dtype = DType::kFp32;
    const PartialsOptions options{.reduce_dtype = DType::kFp32, .num_replays = 1};
    const auto result = run_partials(*find_strategy(strategy), random_partials(spec), options);
    return names_of(*result.ranks.front().graph);
  };
  using Names = std::vector<std::string>;
  const Names with_copy = {"empty_shard_mask", "lse_correct"};
  for (const char* strategy : {"ag_rs", "ag_ar"}) {
    EXPECT_EQ(launches(strategy, {}), Names{"lse_correct"});
    EXPECT_EQ(launches(strategy, {.storage = Storage::kHeadPadded}), with_copy);
    EXPECT_EQ(launches(strategy, {.storage = Storage::kHeadMajor}), with_copy);
    EXPECT_EQ(launches(strategy, {.lse = {LseBase::kE, DType::kBf16}}), with_copy);
  }
}

}  // namespace
}  // namespace dcp::test
