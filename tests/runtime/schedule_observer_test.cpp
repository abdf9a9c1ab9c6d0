#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "runtime/capture_guard.hpp"

namespace dcp {
namespace {

struct NothingOp {
  static constexpr std::string_view kName = "nothing";
  struct Params {
    std::int64_t unused;
  };
  static void accesses(const Params&, std::vector<Access>&) {}
  static void run(const Params&) {}
};

// Writes down "rank op where/stream", with "..." for an op that waits.
class Log final : public ScheduleObserver {
 public:
  void stepped(TaskId, const Task& task, bool done) override {
    const std::string op(task.op == nullptr          ? "mark"
                         : task.op->label == nullptr ? task.op->name
                                                     : task.op->label(task.params));
    lines.push_back(std::to_string(task.rank) + " " + op + " " + task.where + "/" +
                    std::string(task.stream) + (done ? "" : "..."));
  }
  void abandoned() override { lines.push_back("abandoned"); }

  std::int64_t count(const std::string& line) const {
    return std::count(lines.begin(), lines.end(), line);
  }

  std::vector<std::string> lines;
};

// Enqueues an all-gather on one rank.
void gather(Rank& rank, Stream stream, std::vector<float>& memory) {
  rank.communicators[0]->enqueue(
      stream, CollectiveKind::kAllGather,
      {.send = memory.data(), .recv = memory.data() + 1, .count = 1, .dtype = DType::kFp32});
}

TEST(ScheduleObserver, SeesWhenAnOpArrivesAndWhenItIsDone) {
  HostWorld world(2, 3);
  Log log;
  world.observe(&log);
  std::vector<float> memory[2] = {std::vector<float>(3), std::vector<float>(3)};
  world.each_rank(
      [&](Rank& rank) { gather(rank, rank.runtime.make_stream("comm"), memory[rank.index]); });
  world.drain();
  ASSERT_EQ(log.lines.size(), 4u);
  for (const char* rank : {"0", "1"}) {
    const std::string line = std::string(rank) + " all_gather comm/";
    const auto arrived = std::find(log.lines.begin(), log.lines.end(), line + "...");
    const auto done = std::find(log.lines.begin(), log.lines.end(), line);
    EXPECT_LT(arrived, done);
    EXPECT_NE(done, log.lines.end());
  }
}

TEST(ScheduleObserver, SeesTheStreamThatANodeWasCapturedOn) {
  HostWorld world(1, 3);
  Log log;
  world.observe(&log);
  world.each_rank([&](Rank& rank) {
    Runtime& runtime = rank.runtime;
    const Stream origin = runtime.make_stream("origin");
    const Stream forked = runtime.make_stream("forked");
    const Event event = runtime.make_event();
    CaptureGuard guard(runtime, origin, CaptureMode::kThreadLocal);
    runtime.record(event, origin);
    runtime.wait(forked, event);
    enqueue<NothingOp>(runtime, forked, {.unused = 0});
    runtime.record(event, forked);
    runtime.wait(origin, event);
    const GraphExec exec = runtime.instantiate(guard.end());
    enqueue<NothingOp>(runtime, origin, {.unused = 0});
    runtime.launch(exec, origin);
  });
  world.drain();
  EXPECT_EQ(log.count("0 nothing origin/"), 1);
  EXPECT_EQ(log.count("0 nothing capture 0/forked"), 1);
  EXPECT_EQ(log.lines.size(), 4u);  // two ops, and where the launch begins and ends
}

TEST(ScheduleObserver, IsToldThatWorkWasGivenUp) {
  HostWorld world(2, 3);
  Log log;
  world.observe(&log);
  std::vector<float> memory(3);
  world.each_rank([&](Rank& rank) {
    if (rank.index == 0) gather(rank, rank.runtime.make_stream("comm"), memory);
  });
  EXPECT_THROW(world.drain(), Failure);
  EXPECT_EQ(log.lines, (std::vector<std::string>{"0 all_gather comm/...", "abandoned"}));
}

}  // namespace
}  // namespace dcp
