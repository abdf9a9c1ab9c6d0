// What memory that was given back does to those that still use it, pools that captures share, and
// operations that are disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.hpp"
#include "core/poison.hpp"
#include "runtime/host/host_runtime.hpp"

namespace dcp {
namespace {

using testing::HasSubstr;

class FreedMemory : public testing::Test {
 protected:
  void copy(const Buffer& to, const Buffer& from) { runtime_.copy(s0_, to.data, from.data, 8); }
  Buffer filled(std::uint64_t value) {
    const Buffer buffer = runtime_.allocate("b", 8);
    std::memcpy(buffer.data, &value, 8);
    return buffer;
  }
  std::uint64_t at(const Buffer& buffer) const {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.data, 8);
    return value;
  }
  GraphExec graph_of_copies(const std::vector<std::pair<Buffer, Buffer>>& copies) {
    runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
    for (const auto& [to, from] : copies) copy(to, from);
    return runtime_.instantiate(runtime_.end_capture(s0_));
  }
  void launch(GraphExec exec) {
    runtime_.launch(exec, s0_);
    scheduler_.run_all();
  }

  static constexpr std::uint64_t kPoisoned = 0x7FC17FC17FC17FC1u;
  Scheduler scheduler_{1};
  HostRuntime runtime_{scheduler_, 0};
  Stream s0_ = runtime_.make_stream("s0");
};

TEST_F(FreedMemory, AGraphThatStagesThroughItReadsPoison) {
  const Buffer in = filled(5), staging = filled(0), out = filled(0);
  const GraphExec exec = graph_of_copies({{staging, in}, {out, staging}});
  launch(exec);
  EXPECT_EQ(at(out), 5u);
  runtime_.free(staging);
  launch(exec);
  EXPECT_EQ(at(out), kPoisoned) << "someone else owns the staging between write and read";
  EXPECT_EQ(at(staging), kPoisoned);
}

TEST_F(FreedMemory, ResultsThatLandInItAreLost) {
  const Buffer in = filled(5), out = filled(0);
  const GraphExec exec = graph_of_copies({{out, in}});
  runtime_.free(out);
  launch(exec);
  EXPECT_EQ(at(out), kPoisoned);
}

TEST_F(FreedMemory, ALaunchThatCameBeforeTheFreeIsNotConcerned) {
  const Buffer in = filled(5), staging = filled(0), out = filled(0);
  const GraphExec exec = graph_of_copies({{staging, in}, {out, staging}});
  runtime_.launch(exec, s0_);
  runtime_.free(staging);
  scheduler_.run_all();
  EXPECT_EQ(at(out), 5u);
}

TEST_F(FreedMemory, AnEagerOpReadsPoisonWhateverWasWrittenThere) {
  const Buffer in = filled(5), out = filled(0);
  runtime_.free(in);
  std::memset(in.data, 1, 8);
  copy(out, in);
  scheduler_.run_all();
  EXPECT_EQ(at(out), kPoisoned);
}

TEST_F(FreedMemory, NeighboursAreNotTouched) {
  const Buffer block = runtime_.allocate("block", 24);
  std::memset(block.data, 0, 24);
  const Buffer part{.data = block.data + 8, .size_bytes = 8, .id = block.id};
  runtime_.free(part);
  const Buffer out = runtime_.allocate("out", 24);
  runtime_.copy(s0_, out.data, block.data, 24);
  scheduler_.run_all();
  std::uint64_t words[3];
  std::memcpy(words, out.data, 24);
  EXPECT_EQ(words[0], 0u);
  EXPECT_EQ(words[1], kPoisoned);
  EXPECT_EQ(words[2], 0u);
}

TEST_F(FreedMemory, RemappingKeepsTheAddressAndNothingElse) {
  const Buffer old = filled(5);
  const Buffer fresh = runtime_.remap(old);
  EXPECT_EQ(fresh.data, old.data);
  EXPECT_NE(fresh.id, old.id);
  EXPECT_EQ(at(fresh), kPoisoned);
  EXPECT_FALSE(runtime_.ledger().at(old.id).live);
  EXPECT_EQ(runtime_.ledger().find(old.data)->generation, 2u);
  const Buffer in = filled(7), out = filled(0);
  copy(fresh, in);
  copy(out, fresh);
  scheduler_.run_all();
  EXPECT_EQ(at(out), 7u) << "the new memory is usable";
}

TEST_F(FreedMemory, ASharedPoolHandsOnWhatACaptureGaveBack) {
  runtime_.share_pool();
  const auto capture = [&](bool gives_back) {
    runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
    const Buffer buffer = runtime_.allocate("temp", 8);
    if (gives_back) runtime_.free(buffer);
    return std::pair(buffer, runtime_.end_capture(s0_));
  };
  const auto [first, first_graph] = capture(true);
  const auto [second, second_graph] = capture(false);
  EXPECT_EQ(second.data, first.data);
  const auto [third, third_graph] = capture(true);
  EXPECT_NE(third.data, second.data) << "the second capture keeps its buffer";

  std::memset(second.data, 0, 8);
  runtime_.destroy(first_graph);
  EXPECT_EQ(at(second), 0u) << "two graphs still use the pool";
  runtime_.destroy(second_graph);
  runtime_.destroy(third_graph);
  EXPECT_EQ(at(second), kPoisoned);
}

TEST_F(FreedMemory, PrivatePoolsDoNotMeet) {
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  const Buffer first = runtime_.allocate("temp", 8);
  runtime_.free(first);
  runtime_.end_capture(s0_);
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  EXPECT_NE(runtime_.allocate("temp", 8).data, first.data);
  runtime_.end_capture(s0_);
}

// Skips, holds or lets through every memcpy.
struct Disturber final : Interference {
  Verdict verdict;
  bool released = false;
  std::vector<std::string> asked;
  Verdict judge(const Operation& operation) override {
    asked.push_back(std::string(operation.name) + (operation.is_captured ? " captured" : ""));
    return verdict;
  }
  bool is_released(int hold) const override { return released && hold == 3; }
  std::string waits_for(int) const override { return "the disturber"; }
};

TEST_F(FreedMemory, ASkippedOpIsLeftOutOfStreamsLaunchesAndCaptures) {
  const Buffer in = filled(5), out = filled(0);
  const GraphExec exec = graph_of_copies({{out, in}});
  Disturber disturber;
  disturber.verdict = {.kind = Verdict::kSkip};
  runtime_.interfere(&disturber);
  copy(out, in);
  launch(exec);
  const GraphExec without = graph_of_copies({{out, in}});
  EXPECT_EQ(disturber.asked, (std::vector<std::string>{"memcpy", "memcpy", "memcpy captured"}));
  runtime_.interfere(nullptr);
  launch(without);
  EXPECT_EQ(at(out), 0u);
  launch(exec);
  EXPECT_EQ(at(out), 5u);
}

TEST_F(FreedMemory, AHeldOpWaitsUntilItIsReleased) {
  const Buffer in = filled(5), out = filled(0);
  const GraphExec exec = graph_of_copies({{out, in}});
  Disturber disturber;
  disturber.verdict = {.kind = Verdict::kHold, .hold = 3};
  runtime_.interfere(&disturber);
  runtime_.launch(exec, s0_);
  runtime_.interfere(nullptr);
  try {
    scheduler_.run_all();
    FAIL() << "nobody released it";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.why(), HasSubstr("waits in capture 0: the disturber"));
  }
  disturber.released = true;
  scheduler_.run_all();
  EXPECT_EQ(at(out), 5u);
}

}  // namespace
}  // namespace dcp
