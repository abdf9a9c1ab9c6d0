// Whole decode steps on a GPU beside the simulator's: the same graphs, and results that follow the
// batch and nothing else.
#include <memory>
#include <ostream>

#include "comm/cuda/symmetric_world.hpp"
#include "comm/simulated/host_world.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "strategies/registry.hpp"
#include "tests/cuda/arena.hpp"

namespace dcp {
namespace {

struct Variant {
  const char* name;
  const char* keys;  // of the scenario
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

constexpr const char* kMla = "model: tiny\nlayers: 2\ndtype: bf16\n";
constexpr const char* kMlaOneStream = "model: tiny\nlayers: 2\ndtype: fp16\ncomm_stream: same\n";
constexpr const char* kMlaFp32 =
    "model: {extends: tiny, padded_num_heads: 12}\nlayers: 2\ndtype: fp32\nreduce_dtype: fp32\n"
    "lse: {base: 2, dtype: bf16}\na2a_layout: split\n";
constexpr const char* kMlaSplit = "model: tiny\nlayers: 2\ndtype: bf16\nsplit_kv: 3\n";
constexpr const char* kGqaContext =
    "model: {attention: gqa, num_heads: 8, num_kv_heads: 2, head_dim: 16}\nlayers: 2\n"
    "dtype: bf16\nattention_split: context_then_new\n";
constexpr const char* kFused = "model: tiny\nlayers: 2\ndtype: bf16\ndirect: {form: fused}\n";
constexpr const char* kUbatches = "model: tiny\nlayers: 3\ndtype: bf16\n";

constexpr const char* kBatches = R"(batches:
  b0: {seq_lens: [5, 3, 9, 2]}
  b1: {seq_lens: [1, 40, 2, 7]}
  b2: {seq_lens: [17, 1, 1, 30]}
  b3: {seq_lens: [2, 2, 64, 5]}
  b4: {seq_lens: [33, 6, 0, 11]}
  b5: {seq_lens: [9, 8], query_start_loc: [0, 3, 4]}
  b6: {seq_lens: [3, 12, 50, 1]}
)";

class EngineOnGpu : public GpuTest,
                    public testing::WithParamInterface<std::tuple<const char*, Variant>> {
 protected:
  EngineOnGpu()
      : strategy_(*find_strategy(std::get<0>(GetParam()))),
        scenario_(parse_scenario("test.yaml", text(std::get<1>(GetParam())))) {}

  static std::string text(const Variant& variant) {
    const bool cuts = variant.keys == kUbatches;
    return std::string("schema: 1\nworld_size: 4\n") + variant.keys +
           "graph: {capture_sizes: [4], max_num_tokens: 4" + (cuts ? ", ubatches: 2" : "") + "}\n" +
           kBatches;
  }

  std::unique_ptr<World> gpu() const {
    return std::make_unique<SymmetricWorld>(scenario_.world_size, scenario_.graph.ubatches);
  }
  std::unique_ptr<World> simulator() const {
    return std::make_unique<HostWorld>(scenario_.world_size, 7, scenario_.graph.ubatches);
  }

  const Strategy& strategy_;
  Scenario scenario_;
};

// Copies of the records of all ranks.
std::vector<GraphRecord> records(World& world, const EngineStep& step) {
  std::vector<GraphRecord> all(step.ranks.size());
  world.each_rank(
      [&](Rank& rank) { all[rank.index] = rank.runtime.record_of(step.ranks[rank.index].graph); });
  return all;
}

std::string_view label_of(const GraphNode& node) {
  return node.op->label == nullptr ? node.op->name : node.op->label(node.params.data());
}

TEST_P(EngineOnGpu, RecordsTheGraphThatTheSimulatorRecords) {
  const auto simulated_world = simulator();
  const auto gpu_world = gpu();
  Engine simulated(scenario_, strategy_, *simulated_world);
  Engine real(scenario_, strategy_, *gpu_world);
  simulated.capture("g4", 4, &scenario_.batches[0]);
  real.capture("g4", 4, &scenario_.batches[0]);
  const auto want =
      records(*simulated_world, *simulated.replay(scenario_.batches[0], "g4", 1).step);
  const auto got = records(*gpu_world, *real.replay(scenario_.batches[0], "g4", 1).step);
  ASSERT_EQ(want.size(), got.size());
  for (std::size_t rank = 0; rank < want.size(); ++rank) {
    ASSERT_EQ(want[rank].nodes.size(), got[rank].nodes.size()) << "rank " << rank;
    ASSERT_FALSE(want[rank].nodes.empty());
    for (std::size_t i = 0; i < want[rank].nodes.size(); ++i) {
      const GraphNode& wanted = want[rank].nodes[i];
      const GraphNode& node = got[rank].nodes[i];
      EXPECT_EQ(wanted.op->name, node.op->name) << "rank " << rank << " node " << i;
      EXPECT_EQ(label_of(wanted), label_of(node)) << "rank " << rank << " node " << i;
      EXPECT_EQ(wanted.stream, node.stream) << "rank " << rank << " node " << i;
      EXPECT_EQ(wanted.dependencies, node.dependencies)
          << "rank " << rank << " node " << i << " " << node.op->name;
    }
  }
}

TEST_P(EngineOnGpu, EveryKernelOfTheGraphBelongsToAnOpAndIsGivenItsParams) {
  const auto world = gpu();
  Engine engine(scenario_, strategy_, *world);
  engine.capture("g4", 4, &scenario_.batches[0]);
  for (const GraphRecord& record :
       records(*world, *engine.replay(scenario_.batches[0], "g4", 1).step)) {
    EXPECT_EQ(record.device.ops_without_params, std::vector<int>{});
    std::vector<int> num_nodes(record.nodes.size(), 0);
    for (const DeviceNode& node : record.device.nodes) {
      if (node.kind == DeviceNodeKind::kEmpty) continue;
      ASSERT_GE(node.op, 0) << node.function;
      ++num_nodes[static_cast<std::size_t>(node.op)];
      if (node.kind != DeviceNodeKind::kKernel) continue;
      EXPECT_FALSE(node.function.empty());
      EXPECT_FALSE(node.arguments.empty()) << node.function;
    }
    for (std::size_t i = 0; i < num_nodes.size(); ++i) {
      const bool is_collective = record.nodes[i].op->label != nullptr;
      EXPECT_EQ(num_nodes[i], is_collective ? 3 : 1)
          << "node " << i << " " << record.nodes[i].op->name;
    }
  }
}

// What a step left on all ranks and layers, bit for bit.
struct StepBits {
  std::vector<std::vector<std::byte>> partials;
  std::vector<std::vector<std::byte>> results;
  friend bool operator==(const StepBits&, const StepBits&) = default;
};

StepBits bits_of(const Engine& engine, const StepRun& run, int num_layers) {
  StepBits bits;
  for (int layer = 0; layer < num_layers; ++layer) {
    for (const RankLayerBits& rank : engine.read_layer_bits(run, layer).ranks) {
      bits.partials.push_back(rank.partial_out.bytes);
      bits.partials.push_back(rank.partial_lse.bytes);
      bits.results.push_back(rank.out.bytes);
      if (rank.lse) bits.results.push_back(rank.lse->bytes);
    }
  }
  return bits;
}

TEST_P(EngineOnGpu, ReplaysGiveTheBitsOfTheEagerStepOfTheirBatch) {
  const auto world = gpu();
  Engine engine(scenario_, strategy_, *world);
  std::vector<StepBits> eager;
  for (const Batch& batch : scenario_.batches) {
    eager.push_back(bits_of(engine, engine.eager(batch), scenario_.layers));
    EXPECT_FALSE(eager.back().partials.empty());
  }
  for (std::size_t b = 1; b < eager.size(); ++b) {
    EXPECT_NE(eager[b], eager[b - 1]) << "two batches with one answer would hide a stale one";
  }
  engine.capture("g4", 4);
  engine.capture("g4b", 4, &scenario_.batches[1]);
  const int num_replays = std::get<1>(GetParam()).keys == kMla ? 1000 : 100;
  for (int i = 0; i < num_replays; ++i) {
    const std::size_t b = static_cast<std::size_t>(i * 5 + i / 7) % eager.size();
    const char* graph = i % 3 == 0 ? "g4b" : "g4";
    const StepRun run = engine.replay(scenario_.batches[b], graph, 1 + i % 4 / 3);
    const StepBits replayed = bits_of(engine, run, scenario_.layers);
    ASSERT_TRUE(replayed.partials == eager[b].partials) << "partials of replay " << i;
    ASSERT_TRUE(replayed.results == eager[b].results) << "results of replay " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Steps, EngineOnGpu,
    testing::Combine(testing::Values("ag_rs", "ag_ar", "a2a", "direct"),
                     testing::Values(Variant{"mla", kMla}, Variant{"one_stream", kMlaOneStream},
                                     Variant{"fp32_padded_heads", kMlaFp32},
                                     Variant{"split_kv", kMlaSplit},
                                     Variant{"gqa_context", kGqaContext}, Variant{"fused", kFused},
                                     Variant{"ubatches", kUbatches})),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param).name;
    });

}  // namespace
}  // namespace dcp
