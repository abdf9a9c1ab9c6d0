// Ops touch what they declare, and read and write as they declare it: every node of captured steps
// runs twice, the second time with all memory scrambled that it did not declare to read.
#include <gtest/gtest.h>

#include <cstring>

#include "comm/simulated/communicator.hpp"
#include "comm/simulated/host_world.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

// All memory of a rank, as it is now.
class Image {
 public:
  explicit Image(const Ledger& ledger) : ledger_(ledger) {
    for (const Allocation& each : ledger.all()) {
      bytes_.emplace_back(each.data, each.data + (each.live ? each.size_bytes : 0));
    }
  }

  void restore() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      std::copy(bytes_[i].begin(), bytes_[i].end(), memory(i));
    }
  }

  // Changes every byte that no access declares to be read.
  void scramble(const std::vector<Access>& accesses) const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      for (std::size_t at = 0; at < bytes_[i].size(); ++at) {
        if (is_declared(memory(i) + at, accesses, Mode::kWrite)) continue;
        memory(i)[at] ^= std::byte{0xFF};
      }
    }
  }

  // Whether the byte is in an access of another mode than `other_than`.
  static bool is_declared(const std::byte* byte, const std::vector<Access>& accesses,
                          Mode other_than) {
    for (const Access& access : accesses) {
      const auto* begin = static_cast<const std::byte*>(access.data);
      if (access.mode != other_than && begin <= byte && byte < begin + access.size_bytes) {
        return true;
      }
    }
    return false;
  }

  std::size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& of(std::size_t allocation) const { return bytes_[allocation]; }
  std::byte* memory(std::size_t i) const { return const_cast<std::byte*>(ledger_.all()[i].data); }

 private:
  const Ledger& ledger_;
  std::vector<std::vector<std::byte>> bytes_;
};

void run_twice(const GraphNode& node, const Ledger& ledger, const std::string& what) {
  std::vector<Access> accesses;
  node.op->accesses(node.params.data(), accesses);
  const Image before(ledger);
  node.op->run(node.params.data());
  const Image after(ledger);
  before.restore();
  before.scramble(accesses);
  const Image scrambled(ledger);
  node.op->run(node.params.data());
  const Image again(ledger);
  after.restore();
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::size_t at = 0; at < before.of(i).size(); ++at) {
      const bool writes = Image::is_declared(before.memory(i) + at, accesses, Mode::kRead);
      const bool first = after.of(i)[at] != before.of(i)[at];
      const bool second = again.of(i)[at] != scrambled.of(i)[at];
      const std::string where = what + ": " + std::string(node.op->name) + ", byte " +
                                std::to_string(at) + " of " + ledger.all()[i].name;
      ASSERT_TRUE(writes || (!first && !second)) << where << " is written and not declared so";
      if (!writes || (!first && !second)) continue;
      ASSERT_EQ(after.of(i)[at], again.of(i)[at])
          << where << " depends on what is not declared to be read";
    }
  }
}

// Runs the captured graphs of all ranks, node after node.
void run_graphs(HostWorld& world, const EngineStep& step, const std::string& what) {
  std::vector<const GraphRecord*> records;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    records.push_back(
        &world.runtime(rank).record_of(step.ranks[static_cast<std::size_t>(rank)].graph));
  }
  for (const RankStep& rank : step.ranks) {  // what is written is not what was there
    for (const UbatchStep& ubatch : rank.ubatches) {
      for (const auto& [name, buffer] : ubatch.buffers.all()) {
        std::memset(buffer.data, 0xA5, buffer.size_bytes);
      }
    }
  }
  for (std::size_t i = 0; i < records.front()->nodes.size(); ++i) {
    const bool is_collective = records.front()->nodes[i].op == &kOpInfo<CollectiveOp>;
    for (const GraphRecord* record : records) {
      if (is_collective) record->nodes[i].op->arrive(record->nodes[i].params.data());
    }
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const GraphNode& node = records[rank]->nodes[i];
      if (is_collective) {
        node.op->run(node.params.data());
      } else {
        run_twice(node, world.runtime(static_cast<int>(rank)).ledger(), what);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

constexpr const char* kVariants[] = {
    "model: tiny\nlayers: 2\n",
    "model: tiny\nsplit_kv: 2\ndtype: fp32\nreduce_dtype: fp32\n",
    "model: tiny\ngraph: {ubatches: 2}\nworkspace: fixed\na2a_layout: split\n",
    "model: {extends: tiny, padded_num_heads: 12}\nlse: {base: 2, dtype: bf16}\n",
    "model: {attention: gqa, num_heads: 4, num_kv_heads: 2, head_dim: 8}\n",
    "model: {attention: gqa, num_heads: 4, num_kv_heads: 2, head_dim: 8}\n"
    "attention_split: context_then_new\nquery: replicate\nlayers: 2\n",
    "model: tiny\nquery: direct\nlayers: 2\nkv_gather: {tokens: 6, dim: 16, dtype: fp8_e4m3}\n",
    "model: tiny\ndata: {kind: given, lse: [1, 2], out: [1, 2]}\n"};

TEST(Declarations, OpsReadAndWriteWhatTheyDeclare) {
  for (const char* variant : kVariants) {
    const Scenario scenario = parse_scenario(
        "test.yaml",
        std::string("world_size: 2\nkv: {block_size: 4}\n") + variant +
            "batches:\n  three: {seq_lens: [9, 1, 6], query_start_loc: [0, 2, 3, 4], rows: 6}\n");
    for (const char* strategy : {"ag_rs", "ag_ar", "a2a", "direct"}) {
      HostWorld world(2, 1, scenario.graph.ubatches);
      Engine engine(scenario, *find_strategy(strategy), world);
      engine.capture("g", 6);
      engine.replay(scenario.batches.front(), "g", 1);
      run_graphs(world, *engine.graphs().front(), std::string(strategy) + ", " + variant);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace dcp
