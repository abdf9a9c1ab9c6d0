// Results as the engine stored them: shapes without padding, and every bit.
#include <gtest/gtest.h>

#include <cstring>

#include "comm/simulated/host_world.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr const char* kScenario = R"(schema: 1
world_size: 2
model: {extends: tiny, padded_num_heads: 12}
layers: 2
dtype: bf16
graph: {capture_sizes: [2], max_num_tokens: 6}
batches:
  two: {seq_lens: [5, 3]}
)";

class EngineBits : public testing::Test {
 protected:
  explicit EngineBits(const char* strategy = "a2a", const std::string& extra = "")
      : scenario_(parse_scenario("test.yaml", kScenario + extra)),
        engine_(scenario_, *find_strategy(strategy), world_) {
    engine_.capture("g2", 2);
    run_ = engine_.replay(scenario_.batches[0], "", 1);
  }

  void overwrite(int rank, const std::string& buffer, std::size_t offset, std::uint16_t bits) {
    const Buffer* found =
        run_.step->ranks[static_cast<std::size_t>(rank)].ubatches[0].buffers.find(buffer);
    world_.runtime(rank).write(found->data + offset, &bits, sizeof bits);
  }

  std::optional<TensorBits> workspace(int rank, std::string_view name) const {
    return engine_.read_workspace({.run = run_, .rank = rank, .ubatch = 0, .name = name});
  }

  Scenario scenario_;
  HostWorld world_{2, 11};
  Engine engine_;
  StepRun run_;
};

std::uint16_t half_at(const TensorBits& tensor, std::size_t index) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + 2 * index, sizeof bits);
  return bits;
}

TEST_F(EngineBits, ShapesLeavePaddedHeadsOut) {
  const LayerBits layer = engine_.read_layer_bits(run_, 1);
  EXPECT_EQ(layer.query.shape, (Shape{2, 8, 24}));
  EXPECT_EQ(layer.query.bytes.size(), 2u * 8 * 24 * 2);
  ASSERT_EQ(layer.ranks.size(), 2u);
  for (const RankLayerBits& rank : layer.ranks) {
    EXPECT_EQ(rank.partial_out.shape, (Shape{2, 8, 16}));
    EXPECT_EQ(rank.partial_out.bytes.size(), 2u * 8 * 16 * 2);
    EXPECT_EQ(rank.partial_lse.shape, (Shape{2, 8}));
    EXPECT_EQ(rank.partial_lse.dtype, DType::kFp32);
    EXPECT_EQ(rank.out.shape, (Shape{2, 4, 16}));
    EXPECT_EQ(rank.lse->shape, (Shape{2, 4}));
  }
}

TEST_F(EngineBits, DecodedTheyAreTheValuesThatAreChecked) {
  for (int layer = 0; layer < 2; ++layer) {
    const LayerBits bits = engine_.read_layer_bits(run_, layer);
    const LayerValues values = engine_.read_layer(run_, layer);
    const auto expect_same = [](const TensorBits& tensor, const std::vector<float>& want) {
      ASSERT_EQ(tensor.bytes.size(), want.size() * size_bytes(tensor.dtype));
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(load_element(tensor.bytes.data(), tensor.dtype, i), want[i]) << i;
      }
    };
    expect_same(bits.query, values.query);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      expect_same(bits.ranks[rank].partial_out, values.ranks[rank].partial_out);
      expect_same(bits.ranks[rank].partial_lse, values.ranks[rank].partial_lse);
      expect_same(bits.ranks[rank].out, values.ranks[rank].out);
      expect_same(*bits.ranks[rank].lse, values.ranks[rank].lse);
    }
  }
}

// A conversion to float and back would make it a quiet NaN, 0x7FC1.
TEST_F(EngineBits, ASignallingNanKeepsItsBits) {
  const std::size_t layer_bytes = 2 * 12 * 16 * 2;
  const std::size_t row = 12 * 16 * 2;  // row 1, head 0: behind the padded heads of row 0
  overwrite(1, "partial_out", layer_bytes + row, 0x7F81);
  EXPECT_EQ(half_at(engine_.read_layer_bits(run_, 1).ranks[1].partial_out, 8 * 16), 0x7F81);
}

TEST_F(EngineBits, APackedBufferHasTheFormOfTheWire) {
  const auto send = workspace(0, "send");
  ASSERT_TRUE(send.has_value());
  EXPECT_EQ(send->shape, (Shape{2, 2, 4, 18}));
  const RankLayerBits rank = engine_.read_layer_bits(run_, 1).ranks[0];
  // Row 1 of head 5, which is head 1 of rank 1: its payload, then its lse, low half first.
  const std::size_t packed = ((1 * 2 + 1) * 4 + 1) * 18;
  const std::size_t head = 1 * 8 + 5;
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(half_at(*send, packed + i), half_at(rank.partial_out, head * 16 + i));
  }
  EXPECT_EQ(half_at(*send, packed + 16), half_at(rank.partial_lse, 2 * head));
  EXPECT_EQ(half_at(*send, packed + 17), half_at(rank.partial_lse, 2 * head + 1));
}

TEST_F(EngineBits, ABufferThatIsNotThereIsNotRead) {
  EXPECT_FALSE(workspace(0, "payload").has_value());
  EXPECT_FALSE(workspace(0, "out").has_value());  // no workspace
}

class FixedWorkspaceBits : public EngineBits {
 protected:
  FixedWorkspaceBits() : EngineBits("ag_rs", "workspace: fixed\nreduce_dtype: fp32\n") {}
};

TEST_F(FixedWorkspaceBits, OnlyTheStepsPartOfALargerBufferIsRead) {
  ASSERT_GT(run_.step->ranks[0].ubatches[0].buffers.find("send")->size_bytes, 2u * 2 * 4 * 16 * 4);
  const auto send = workspace(0, "send");
  EXPECT_EQ(send->dtype, DType::kFp32);
  EXPECT_EQ(send->shape, (Shape{2, 2, 4, 16}));
  EXPECT_EQ(send->bytes.size(), 2u * 2 * 4 * 16 * 4);
  EXPECT_EQ(workspace(0, "recv")->shape, (Shape{2, 4, 16}));
}

}  // namespace
}  // namespace dcp
