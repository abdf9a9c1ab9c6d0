// Ranks that share a GPU: what one of them does wrong ends the round on all, in bounded time, and
// the next round is as if nothing had been.
#include "comm/cuda/symmetric_world.hpp"

#include <chrono>
#include <functional>
#include <memory>

#include "core/error.hpp"
#include "runtime/capture_guard.hpp"
#include "tests/cuda/arena.hpp"

namespace dcp {
namespace {

constexpr int kNumRanks = 4;
constexpr std::int64_t kCount = 100;
constexpr std::chrono::seconds kBound{20};  // every wait ends after 5 s; some follow each other

class SymmetricWorldTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    world_ = std::make_unique<SymmetricWorld>(kNumRanks, 1);
    send_.resize(kNumRanks);
    recv_.resize(kNumRanks);
    streams_.resize(kNumRanks);
    execs_.resize(kNumRanks);
    world_->each_rank([&](Rank& rank) {
      streams_[rank.index] = rank.runtime.make_stream("compute");
      send_[rank.index] = rank.runtime.allocate("send", kNumRanks * kCount * sizeof(float));
      recv_[rank.index] = rank.runtime.allocate("recv", kNumRanks * kCount * sizeof(float));
    });
  }

  void call(Rank& rank, CollectiveKind kind = CollectiveKind::kAllReduce,
            std::int64_t count = kCount, DType dtype = DType::kFp32) {
    rank.communicators[0]->enqueue(streams_[rank.index], kind,
                                   {.send = send_[rank.index].data,
                                    .recv = recv_[rank.index].data,
                                    .count = count,
                                    .dtype = dtype});
  }

  // Captures `program` on every rank; the graphs are launched by launch().
  void capture(const std::function<void(Rank&)>& program) {
    world_->each_rank([&](Rank& rank) {
      CaptureGuard guard(rank.runtime, streams_[rank.index], CaptureMode::kThreadLocal);
      program(rank);
      execs_[rank.index] = rank.runtime.instantiate(guard.end());
    });
  }
  void launch() {
    world_->each_rank(
        [&](Rank& rank) { rank.runtime.launch(execs_[rank.index], streams_[rank.index]); });
    world_->drain();
  }

  // The failure of `round`, which must come in time.
  template <class Round>
  static std::string failure_of(const Round& round) {
    const auto begin = std::chrono::steady_clock::now();
    std::string kind = "none";
    try {
      round();
    } catch (const Failure& failure) {
      kind = failure.kind();
    } catch (const StepError& error) {
      kind = error.kind();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kBound);
    return kind;
  }

  // A whole round on all ranks, eager and captured, gives the right sum.
  void expect_usable() {
    SCOPED_TRACE("the round after");
    for (const bool captured : {false, true}) {
      world_->each_rank([&](Rank& rank) {
        const std::vector<float> values(kNumRanks * kCount, 1.0f + rank.index);
        rank.runtime.write(send_[rank.index].data, values.data(), values.size() * sizeof(float));
        const std::vector<float> zeros(values.size());
        rank.runtime.write(recv_[rank.index].data, zeros.data(), zeros.size() * sizeof(float));
      });
      if (captured) {
        capture([&](Rank& rank) { call(rank); });
        launch();
      } else {
        world_->each_rank([&](Rank& rank) { call(rank); });
        world_->drain();
      }
      world_->each_rank([&](Rank& rank) {
        std::vector<float> values(kCount);
        rank.runtime.read(values.data(), recv_[rank.index].data, kCount * sizeof(float));
        EXPECT_EQ(values, std::vector<float>(kCount, 1.0f + 2.0f + 3.0f + 4.0f))
            << "rank " << rank.index << (captured ? " captured" : " eager");
      });
    }
  }

  std::unique_ptr<SymmetricWorld> world_;
  std::vector<Stream> streams_;
  std::vector<Buffer> send_;
  std::vector<Buffer> recv_;
  std::vector<GraphExec> execs_;
};

TEST_F(SymmetricWorldTest, ARankThatThrowsEndsTheRoundOnAll) {
  for (int thrower = 0; thrower < kNumRanks; ++thrower) {
    for (const int after : {0, 1, 2}) {
      const std::string kind = failure_of([&] {
        world_->each_rank([&](Rank& rank) {
          for (int i = 0; i < 3; ++i) {
            if (rank.index == thrower && i == after) throw StepError("capacity", "no room here");
            call(rank);
          }
        });
      });
      EXPECT_EQ(kind, "capacity") << "rank " << thrower << " after " << after;
    }
  }
  expect_usable();
}

TEST_F(SymmetricWorldTest, ARankThatThrowsWhileAllCaptureEndsTheRoundOnAll) {
  const std::string kind = failure_of([&] {
    capture([&](Rank& rank) {
      call(rank);
      if (rank.index == 2) throw StepError("capacity", "no room here");
      call(rank);
    });
  });
  EXPECT_EQ(kind, "capacity");
  expect_usable();
}

TEST_F(SymmetricWorldTest, DifferentCallsAreAMismatchOnBothPaths) {
  const std::function<void(Rank&)> programs[] = {
      [&](Rank& rank) {
        call(rank, rank.index == 1 ? CollectiveKind::kAllGather : CollectiveKind::kAllReduce);
      },
      [&](Rank& rank) {
        call(rank, CollectiveKind::kAllGather, rank.index == 3 ? kCount - 1 : kCount);
      },
      [&](Rank& rank) {
        call(rank, CollectiveKind::kAllToAll, kCount,
             rank.index == 0 ? DType::kBf16 : DType::kFp16);
      },
  };
  for (const auto& program : programs) {
    EXPECT_EQ(failure_of([&] {
                world_->each_rank(program);
                world_->drain();
              }),
              "mismatch");
    capture(program);
    EXPECT_EQ(failure_of([&] { launch(); }), "mismatch");
  }
  expect_usable();
}

TEST_F(SymmetricWorldTest, AMissingCollectiveIsADeadlockWithinTheBound) {
  const auto program = [&](Rank& rank) {
    call(rank);
    if (rank.index != 2) call(rank);
  };
  EXPECT_EQ(failure_of([&] {
              world_->each_rank(program);
              world_->drain();
            }),
            "deadlock");
  expect_usable();
  capture(program);
  EXPECT_EQ(failure_of([&] { launch(); }), "deadlock");
  expect_usable();
}

TEST_F(SymmetricWorldTest, AFailedReplayDoesNotSpoilTheNextOfTheSameGraph) {
  capture([&](Rank& rank) { call(rank); });
  const auto all = execs_;
  const std::string kind = failure_of([&] {
    world_->each_rank([&](Rank& rank) {
      if (rank.index != 0) rank.runtime.launch(all[rank.index], streams_[rank.index]);
    });
    world_->drain();
  });
  EXPECT_EQ(kind, "deadlock");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(failure_of([&] { launch(); }), "none");
  expect_usable();
}

TEST_F(SymmetricWorldTest, CommunicatorsThatGraphsHoldAreNotDestroyed) {
  capture([&](Rank& rank) { call(rank); });
  EXPECT_EQ(failure_of([&] { world_->destroy_communicators(); }), "comm_has_live_graphs");
}

}  // namespace
}  // namespace dcp
