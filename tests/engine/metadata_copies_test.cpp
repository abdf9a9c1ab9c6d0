// Which copies bring a batch's metadata into the buffers, counted on the host backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "comm/simulated/host_world.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "runtime/memcpy_op.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

using testing::ElementsAre;

constexpr const char* kScenario = R"(schema: 1
world_size: 2
model: tiny
data: {kind: mean}
batches:
  four: {seq_lens: [5, 3, 2, 9]}
)";

struct Range {
  const std::byte* data;
  std::size_t size_bytes;

  bool touches(const Range& other) const {
    return data < other.data + other.size_bytes && other.data < data + size_bytes;
  }
};

// Where the copies go that no graph makes, by rank.
class Copies final : public ScheduleObserver {
 public:
  void added(TaskId, const Task& task, std::span<const TaskId>) override {
    if (task.op != &kOpInfo<MemcpyOp> || !task.stream.empty()) return;
    MemcpyOp::Params params;
    std::memcpy(&params, task.params, sizeof params);
    targets_[task.rank].push_back({static_cast<const std::byte*>(params.to), params.size_bytes});
  }
  void stepped(TaskId, const Task&, bool) override {}
  void abandoned() override {}

  void forget() { targets_.clear(); }
  const std::vector<Range>& targets(int rank) { return targets_[rank]; }

 private:
  std::map<int, std::vector<Range>> targets_;
};

class MetadataCopies : public testing::TestWithParam<int> {
 protected:
  MetadataCopies()
      : scenario_(
            parse_scenario("test.yaml", kScenario + ("graph: {capture_sizes: [4], ubatches: " +
                                                     std::to_string(GetParam()) + "}\n"))) {
    world_.observe(&copies_);
    engine_.capture("g4", 4);
  }

  // The rank's metadata: "name of ubatch" -> where it is.
  std::map<std::string, Range> arrays(int rank) const {
    std::map<std::string, Range> arrays;
    for (const NamedBuffer& each : engine_.buffers_of(rank)) {
      if (each.use != BufferUse::kMetadata) continue;
      arrays[each.name + " of " + std::to_string(each.ubatch)] = {each.buffer.data,
                                                                  each.buffer.size_bytes};
    }
    return arrays;
  }

  // The arrays that each copy fills, of the copies since forget() that fill any.
  std::vector<std::vector<std::string>> filled(int rank) {
    std::vector<std::vector<std::string>> filled;
    for (const Range& target : copies_.targets(rank)) {
      std::vector<std::string> names;
      for (const auto& [name, array] : arrays(rank)) {
        if (target.touches(array)) names.push_back(name);
      }
      if (!names.empty()) filled.push_back(std::move(names));
    }
    return filled;
  }

  void replay() {
    copies_.forget();
    engine_.replay({.batch = scenario_.batches.back()});
  }

  static BufferRef array(const std::string& name) {
    BufferRef ref;
    ref.buffer = name;
    ref.ubatch = 0;
    return ref;
  }

  const Scenario scenario_;
  HostWorld world_{2, 11, 2};
  Copies copies_;
  Engine engine_{scenario_, *find_strategy("ag_rs"), world_};
};

TEST_P(MetadataCopies, AReplayMakesOneOnEachRank) {
  for (int times = 0; times < 3; ++times) {
    replay();
    for (const int rank : {0, 1}) {
      const auto copies = filled(rank);
      ASSERT_EQ(copies.size(), 1u);
      EXPECT_EQ(copies[0].size(), arrays(rank).size()) << "all arrays of all ubatches";
    }
  }
}

TEST_P(MetadataCopies, AReplayBehindOneThatIsPendingMakesOneToo) {
  copies_.forget();
  std::vector<StepRun> runs;
  for (int i = 0; i < 2; ++i) {
    runs.push_back(engine_.replay(StepRequest{.batch = scenario_.batches.back(), .wait = false}));
  }
  EXPECT_EQ(filled(0).size(), 2u);
  EXPECT_EQ(filled(1).size(), 2u);
  engine_.drain();
  for (StepRun& run : runs) engine_.release(run);
}

TEST_P(MetadataCopies, AnArrayThatWasReboundIsCopiedOnItsOwn) {
  const Range old = arrays(1).at("seq_lens of 0");
  engine_.rebind(array("seq_lens"));
  replay();
  const auto copies = filled(1);
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_THAT(copies[0], ElementsAre("query_start_loc of 0"));
  EXPECT_THAT(copies[1], ElementsAre("seq_lens of 0"));
  EXPECT_EQ(copies[2].size(), arrays(1).size() - 2);
  for (const Range& target : copies_.targets(1)) {
    EXPECT_FALSE(target.touches(old)) << "a graph that knows it must find the batch before";
  }
}

TEST_P(MetadataCopies, AnArrayThatWasGivenBackIsCopiedOnItsOwn) {
  engine_.free(array("empty_ranks"));
  replay();
  const auto copies = filled(1);
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_THAT(copies[1], ElementsAre("empty_ranks of 0"));
}

TEST_P(MetadataCopies, OtherMemoryBehindAnAddressIsFilledWithTheRest) {
  engine_.remap(array("seq_lens"));
  replay();
  EXPECT_EQ(filled(1).size(), 1u);
}

TEST_P(MetadataCopies, WhatALoadKeepsIsNotTouched) {
  engine_.set({.key = "keep", .value = "causal_bounds"}, std::nullopt);
  replay();
  std::size_t num_filled = 0;
  for (const auto& names : filled(1)) {
    num_filled += names.size();
    for (const std::string& name : names) EXPECT_FALSE(name.starts_with("causal_bounds")) << name;
  }
  EXPECT_EQ(num_filled, arrays(1).size() - static_cast<std::size_t>(GetParam()));
  replay();
  EXPECT_EQ(filled(1).size(), 1u) << "of the next batch nothing is kept";
}

// Replays as they are timed: one copy before each launch, and one of the step before the first.
TEST_P(MetadataCopies, PacedReplaysMakeOneEach) {
  copies_.forget();
  const Pace pace = engine_.pace(scenario_.batches.back(), "g4", 3);
  EXPECT_EQ(filled(0).size(), 4u);
  EXPECT_EQ(filled(1).size(), 4u);
  for (const double us : {pace.host.stage_us, pace.host.copy_us, pace.host.launch_us}) {
    EXPECT_GT(us, 0);
  }
  EXPECT_LT(pace.host.sum_us(), pace.step_us) << "ranks are enqueued one after the other here";
}

INSTANTIATE_TEST_SUITE_P(Ubatches, MetadataCopies, testing::Values(1, 2),
                         [](const auto& ubatches) { return std::to_string(ubatches.param); });

}  // namespace
}  // namespace dcp
