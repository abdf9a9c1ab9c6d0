#include "runtime/host/host_runtime.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/error.hpp"
#include "core/poison.hpp"
#include "runtime/capture_guard.hpp"

namespace dcp {
namespace {

// Adds `amount` to *value when it runs, and writes down that it did.
struct AddOp {
  static constexpr std::string_view kName = "add";
  struct Params {
    std::int64_t* value;
    std::int64_t amount;
    std::vector<std::int64_t>* log;
  };
  static void accesses(const Params& p, std::vector<Access>& out) {
    out.push_back({p.value, sizeof(*p.value), Mode::kReadWrite, "value"});
  }
  static void run(const Params& p) {
    *p.value += p.amount;
    if (p.log != nullptr) p.log->push_back(p.amount);
  }
};

// Runs once *gate is not 0.
struct GateOp {
  static constexpr std::string_view kName = "gate";
  struct Params {
    const std::int64_t* gate;
  };
  static void accesses(const Params& p, std::vector<Access>& out) {
    out.push_back({p.gate, sizeof(*p.gate), Mode::kRead, "gate"});
  }
  static void arrive(const Params&) {}
  static bool ready(const Params& p) { return *p.gate != 0; }
  static std::string waits_for(const Params&) { return "the gate to open"; }
  static void run(const Params&) {}
};

class HostRuntimeTest : public testing::Test {
 protected:
  void add(Stream stream, std::int64_t amount) {
    enqueue<AddOp>(runtime_, stream, {.value = value(), .amount = amount, .log = &log_});
  }
  std::int64_t* value() { return reinterpret_cast<std::int64_t*>(buffer_.data); }

  Scheduler scheduler_{7};
  HostRuntime runtime_{scheduler_, 0};
  Stream s0_ = runtime_.make_stream("s0");
  Stream s1_ = runtime_.make_stream("s1");
  Event e0_ = runtime_.make_event();
  Event e1_ = runtime_.make_event();
  Buffer buffer_ = [this] {
    const Buffer buffer = runtime_.allocate("value", sizeof(std::int64_t));
    std::memset(buffer.data, 0, buffer.size_bytes);
    return buffer;
  }();
  std::vector<std::int64_t> log_;
};

TEST_F(HostRuntimeTest, NothingRunsBeforeTheSchedulerDoes) {
  add(s0_, 1);
  EXPECT_EQ(*value(), 0);
  scheduler_.run_all();
  EXPECT_EQ(*value(), 1);
}

TEST_F(HostRuntimeTest, AStreamKeepsItsOrder) {
  for (int i = 0; i < 20; ++i) add(s0_, i);
  scheduler_.run_all();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(log_[i], i);
}

TEST_F(HostRuntimeTest, ArgumentsAreCopiedAtEnqueue) {
  AddOp::Params params{.value = value(), .amount = 1, .log = nullptr};
  runtime_.enqueue(s0_, kOpInfo<AddOp>, std::as_bytes(std::span(&params, 1)));
  params.amount = 100;
  scheduler_.run_all();
  EXPECT_EQ(*value(), 1);
}

TEST_F(HostRuntimeTest, ArgumentsAreFrozenByCapture) {
  AddOp::Params params{.value = value(), .amount = 1, .log = nullptr};
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  runtime_.enqueue(s0_, kOpInfo<AddOp>, std::as_bytes(std::span(&params, 1)));
  params.amount = 100;
  const GraphExec exec = runtime_.instantiate(runtime_.end_capture(s0_));
  runtime_.launch(exec, s0_);
  scheduler_.run_all();
  EXPECT_EQ(*value(), 1);
}

TEST_F(HostRuntimeTest, CaptureRunsNothingAndEveryLaunchRunsAll) {
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  add(s0_, 1);
  add(s0_, 2);
  const GraphExec exec = runtime_.instantiate(runtime_.end_capture(s0_));
  scheduler_.run_all();
  EXPECT_EQ(*value(), 0);
  for (int launch = 1; launch <= 3; ++launch) {
    runtime_.launch(exec, s0_);
    scheduler_.run_all();
    EXPECT_EQ(*value(), 3 * launch);
  }
}

TEST_F(HostRuntimeTest, EventsOrderStreams) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Scheduler scheduler(seed);
    HostRuntime runtime(scheduler, 0);
    const Stream a = runtime.make_stream("a");
    const Stream b = runtime.make_stream("b");
    const Event event = runtime.make_event();
    std::int64_t sum = 0;
    std::vector<std::int64_t> log;
    enqueue<AddOp>(runtime, a, {.value = &sum, .amount = 1, .log = &log});
    runtime.record(event, a);
    runtime.wait(b, event);
    enqueue<AddOp>(runtime, b, {.value = &sum, .amount = 2, .log = &log});
    scheduler.run_all();
    EXPECT_EQ(log, (std::vector<std::int64_t>{1, 2})) << "seed " << seed;
  }
}

TEST_F(HostRuntimeTest, UnorderedWorkRunsInEveryOrderAndTheSameSeedInTheSame) {
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<std::int64_t> logs[2];
    for (auto& log : logs) {
      Scheduler scheduler(seed);
      HostRuntime runtime(scheduler, 0);
      std::int64_t sum = 0;
      for (int i = 0; i < 3; ++i) {
        enqueue<AddOp>(runtime, runtime.make_stream("s"),
                       {.value = &sum, .amount = i, .log = &log});
      }
      scheduler.run_all();
    }
    EXPECT_EQ(logs[0], logs[1]) << "seed " << seed;
    orders.insert(logs[0]);
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST_F(HostRuntimeTest, AGraphDoesNotRunConcurrentlyWithItself) {
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  add(s0_, 1);
  add(s0_, 2);
  const GraphExec exec = runtime_.instantiate(runtime_.end_capture(s0_));
  runtime_.launch(exec, s0_);
  runtime_.launch(exec, s1_);
  scheduler_.run_all();
  EXPECT_EQ(log_, (std::vector<std::int64_t>{1, 2, 1, 2}));
}

TEST_F(HostRuntimeTest, WorkAfterALaunchWaitsForTheWholeGraph) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Scheduler scheduler(seed);
    HostRuntime runtime(scheduler, 0);
    const Stream a = runtime.make_stream("a");
    const Stream b = runtime.make_stream("b");
    const Event fork = runtime.make_event();
    const Event join = runtime.make_event();
    std::int64_t sum = 0;
    std::vector<std::int64_t> log;
    runtime.begin_capture(a, CaptureMode::kThreadLocal);
    runtime.record(fork, a);
    runtime.wait(b, fork);
    enqueue<AddOp>(runtime, a, {.value = &sum, .amount = 1, .log = &log});
    enqueue<AddOp>(runtime, b, {.value = &sum, .amount = 2, .log = &log});
    runtime.record(join, b);
    runtime.wait(a, join);
    const GraphExec exec = runtime.instantiate(runtime.end_capture(a));
    runtime.launch(exec, a);
    enqueue<AddOp>(runtime, a, {.value = &sum, .amount = 3, .log = &log});
    scheduler.run_all();
    EXPECT_EQ(log.back(), 3) << "seed " << seed;
  }
}

TEST_F(HostRuntimeTest, ABlockingOpWaitsForItsCondition) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Scheduler scheduler(seed);
    HostRuntime runtime(scheduler, 0);
    const Stream a = runtime.make_stream("a");
    const Stream b = runtime.make_stream("b");
    std::int64_t gate = 0;
    std::int64_t seen = 0;
    std::vector<std::int64_t> log;
    enqueue<GateOp>(runtime, a, {.gate = &gate});
    enqueue<AddOp>(runtime, a, {.value = &seen, .amount = 2, .log = &log});
    enqueue<AddOp>(runtime, b, {.value = &gate, .amount = 1, .log = &log});
    scheduler.run_all();
    EXPECT_EQ(log, (std::vector<std::int64_t>{1, 2})) << "seed " << seed;
  }
}

TEST_F(HostRuntimeTest, ADeadlockNamesWhoWaitsForWhat) {
  std::int64_t gate = 0;
  enqueue<GateOp>(runtime_, s1_, {.gate = &gate});
  try {
    scheduler_.run_all();
    FAIL() << "nothing can run";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), "deadlock");
    EXPECT_EQ(failure.why(), "nothing can run; rank 0 waits in s1: the gate to open");
  }
  scheduler_.abandon();
  runtime_.forget_pending_work();
  add(s1_, 1);
  scheduler_.run_all();
  EXPECT_EQ(*value(), 1);
}

TEST_F(HostRuntimeTest, FreshMemoryIsPoisoned) {
  const Buffer fresh = runtime_.allocate("fresh", 64);
  std::uint32_t word = 0;
  std::memcpy(&word, fresh.data + 60, sizeof(word));
  EXPECT_EQ(word, kPoison);
}

TEST_F(HostRuntimeTest, FreedMemoryIsPoisonedOnceItsUsersAreDoneAndNeverHandedOutAgain) {
  add(s0_, 5);
  runtime_.free(buffer_);
  EXPECT_EQ(*value(), 0) << "the pending op still needs the bytes";
  scheduler_.run_all();
  EXPECT_EQ(log_.size(), 1u);
  std::uint32_t word = 0;
  std::memcpy(&word, buffer_.data, sizeof(word));
  EXPECT_EQ(word, kPoison);
  for (int i = 0; i < 10; ++i) EXPECT_NE(runtime_.allocate("new", 8).data, buffer_.data);
}

TEST_F(HostRuntimeTest, PartsFollowEachOtherAndEachIsGivenBackByItself) {
  const BufferRequest requests[] = {{"a", 4}, {"b", 300}, {"c", 8}};
  const std::vector<Buffer> parts = runtime_.allocate_together(requests);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].data - parts[0].data, 256);
  EXPECT_EQ(parts[2].data - parts[1].data, 512);
  EXPECT_EQ(runtime_.ledger().find(parts[1].data)->name, "b");
  const std::int64_t kept = 7;
  runtime_.write(parts[2].data, &kept, sizeof(kept));
  runtime_.write(parts[1].data, &kept, sizeof(kept));
  runtime_.free(parts[1]);
  EXPECT_EQ(std::memcmp(parts[2].data, &kept, sizeof(kept)), 0);
  std::uint32_t word = 0;
  std::memcpy(&word, parts[1].data, sizeof(word));
  EXPECT_EQ(word, kPoison);
}

TEST_F(HostRuntimeTest, TheLedgerCountsGenerationsAndRemembersTheDead) {
  const Buffer first = runtime_.allocate("workspace", 32);
  runtime_.free(first);
  const Buffer second = runtime_.allocate("workspace", 64);
  const Ledger& ledger = runtime_.ledger();
  EXPECT_EQ(ledger.at(first.id).generation, 1u);
  EXPECT_FALSE(ledger.at(first.id).live);
  EXPECT_EQ(ledger.at(second.id).generation, 2u);
  EXPECT_EQ(ledger.find(first.data + 31)->id, first.id);
  EXPECT_EQ(ledger.find(second.data)->owner, "device");
}

TEST_F(HostRuntimeTest, APoolReusesABlockOnlyAfterItsLastUserNode) {
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  const Buffer first = runtime_.allocate("first", 8);
  enqueue<AddOp>(
      runtime_, s0_,
      {.value = reinterpret_cast<std::int64_t*>(first.data), .amount = 1, .log = nullptr});
  runtime_.free(first);
  const Buffer second = runtime_.allocate("second", 8);
  EXPECT_EQ(second.data, first.data) << "the only stream has passed the last user";

  runtime_.record(e0_, s0_);
  runtime_.wait(s1_, e0_);
  enqueue<AddOp>(
      runtime_, s1_,
      {.value = reinterpret_cast<std::int64_t*>(second.data), .amount = 1, .log = nullptr});
  runtime_.free(second);
  const Buffer third = runtime_.allocate("third", 8);
  EXPECT_NE(third.data, second.data) << "s0 has not joined the user on s1";

  runtime_.record(e1_, s1_);
  runtime_.wait(s0_, e1_);
  const Buffer fourth = runtime_.allocate("fourth", 8);
  EXPECT_EQ(fourth.data, second.data);
  runtime_.end_capture(s0_);
}

TEST_F(HostRuntimeTest, ADestroyedGraphGivesBackItsPool) {
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  const Buffer mine = runtime_.allocate("mine", 8);
  std::memset(mine.data, 0, 8);
  const Graph graph = runtime_.end_capture(s0_);
  EXPECT_EQ(runtime_.ledger().at(mine.id).owner, runtime_.record_of(graph).pool);
  runtime_.destroy(graph);
  EXPECT_FALSE(runtime_.ledger().at(mine.id).live);
  std::uint32_t word = 0;
  std::memcpy(&word, mine.data, sizeof(word));
  EXPECT_EQ(word, kPoison);
}

TEST_F(HostRuntimeTest, AGraphInFlightIsNotDestroyed) {
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  add(s0_, 1);
  const GraphExec exec = runtime_.instantiate(runtime_.end_capture(s0_));
  runtime_.launch(exec, s0_);
  try {
    runtime_.destroy(exec);
    FAIL() << "a launch is pending";
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), "graph_in_flight");
  }
  scheduler_.run_all();
  EXPECT_NO_THROW(runtime_.destroy(exec));
}

// Whether the launch has ended by then is up to the schedule; a refusal is not.
TEST_F(HostRuntimeTest, AGraphIsInFlightUntilADrainWhateverElseWasWaitedFor) {
  runtime_.begin_capture(s0_, CaptureMode::kThreadLocal);
  add(s0_, 1);
  const GraphExec exec = runtime_.instantiate(runtime_.end_capture(s0_));
  runtime_.launch(exec, s0_);
  runtime_.call(ApiCall::kStreamSynchronize, s0_.id, CallingThread::kSame);
  EXPECT_THROW(runtime_.destroy(exec), StepError);
  scheduler_.run_all();
  EXPECT_NO_THROW(runtime_.destroy(exec));
}

TEST_F(HostRuntimeTest, AThrowInsideACaptureLeavesTheStreamUsable) {
  try {
    CaptureGuard guard(runtime_, s0_, CaptureMode::kThreadLocal);
    add(s0_, 1);
    throw std::runtime_error("in the middle");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(runtime_.is_capturing(s0_));
  add(s0_, 2);
  scheduler_.run_all();
  EXPECT_EQ(*value(), 2);
}

TEST_F(HostRuntimeTest, CopiesReadTheirSourceWhenTheyRun) {
  const Buffer source = runtime_.allocate_pinned("source", 8);
  *reinterpret_cast<std::int64_t*>(source.data) = 1;
  runtime_.copy(s0_, buffer_.data, source.data, 8);
  *reinterpret_cast<std::int64_t*>(source.data) = 2;
  scheduler_.run_all();
  EXPECT_EQ(*value(), 2);
}

}  // namespace
}  // namespace dcp
