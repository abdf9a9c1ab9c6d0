#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"

namespace dcp {
namespace {

// N ranks with a float buffer to send and one to receive; rank r sends 100 r + i.
class Ring {
 public:
  Ring(int world_size, std::size_t send_count, std::size_t recv_count, std::uint64_t seed = 3)
      : world(world_size, seed) {
    world.each_rank([&](Rank& rank) {
      stream = rank.runtime.make_stream("comm");
      send.push_back(rank.runtime.allocate("send", send_count * sizeof(float)));
      recv.push_back(rank.runtime.allocate("recv", recv_count * sizeof(float)));
      auto* values = reinterpret_cast<float*>(send.back().data);
      for (std::size_t i = 0; i < send_count; ++i) {
        values[i] = 100.0f * static_cast<float>(rank.index) + static_cast<float>(i);
      }
    });
  }

  void call(Rank& rank, CollectiveKind kind, std::int64_t count) {
    rank.communicators[0]->enqueue(stream, kind,
                                   {.send = send[rank.index].data,
                                    .recv = recv[rank.index].data,
                                    .count = count,
                                    .dtype = DType::kFp32});
  }
  float received(int rank, std::size_t i) const {
    return reinterpret_cast<const float*>(recv[rank].data)[i];
  }

  HostWorld world;
  Stream stream;
  std::vector<Buffer> send;
  std::vector<Buffer> recv;
};

TEST(Collectives, AllGatherPutsRanksInOrder) {
  Ring ring(3, 2, 6);
  ring.world.each_rank([&](Rank& rank) { ring.call(rank, CollectiveKind::kAllGather, 2); });
  ring.world.drain();
  for (int rank = 0; rank < 3; ++rank) {
    for (int source = 0; source < 3; ++source) {
      EXPECT_EQ(ring.received(rank, 2 * source + 1), 100.0f * source + 1);
    }
  }
}

TEST(Collectives, AllToAllTransposesRanksAndParts) {
  Ring ring(5, 10, 10);
  ring.world.each_rank([&](Rank& rank) { ring.call(rank, CollectiveKind::kAllToAll, 2); });
  ring.world.drain();
  for (int rank = 0; rank < 5; ++rank) {
    for (int source = 0; source < 5; ++source) {
      EXPECT_EQ(ring.received(rank, 2 * source), 100.0f * source + 2.0f * rank);
    }
  }
}

TEST(Collectives, ReduceScatterSumsEachPart) {
  Ring ring(3, 6, 2);
  ring.world.each_rank([&](Rank& rank) { ring.call(rank, CollectiveKind::kReduceScatter, 2); });
  ring.world.drain();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ring.received(rank, 1), 300.0f + 3.0f * (2.0f * rank + 1));
  }
}

TEST(Collectives, AllReduceSumsInPlaceToo) {
  Ring ring(4, 2, 2);
  ring.recv = ring.send;
  ring.world.each_rank([&](Rank& rank) { ring.call(rank, CollectiveKind::kAllReduce, 2); });
  ring.world.drain();
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(ring.received(rank, 1), 604.0f);
}

TEST(Collectives, SixteenBitSumsRoundAfterEveryTerm) {
  HostWorld world(3, 1);
  std::vector<Buffer> buffers;
  Stream stream;
  world.each_rank([&](Rank& rank) {
    stream = rank.runtime.make_stream("comm");
    buffers.push_back(rank.runtime.allocate("b", 2));
    // 256 + 1 rounds back to 256 in bf16, so the ones are lost one by one.
    store_element(buffers.back().data, DType::kBf16, 0, rank.index == 0 ? 256.0f : 1.0f);
  });
  world.each_rank([&](Rank& rank) {
    rank.communicators[0]->enqueue(stream, CollectiveKind::kAllReduce,
                                   {.send = buffers[rank.index].data,
                                    .recv = buffers[rank.index].data,
                                    .count = 1,
                                    .dtype = DType::kBf16});
  });
  world.drain();
  EXPECT_EQ(load_element(buffers[2].data, DType::kBf16, 0), 256.0f);
}

TEST(Collectives, NoBytesMoveBeforeTheLastRankArrives) {
  Ring ring(2, 1, 2);
  ring.world.each_rank([&](Rank& rank) {
    if (rank.index == 0) ring.call(rank, CollectiveKind::kAllGather, 1);
  });
  EXPECT_THROW(ring.world.drain(), Failure);
  EXPECT_NE(ring.received(0, 0), ring.received(0, 0)) << "still the poison of fresh memory";
}

TEST(Collectives, AMissingRankIsADeadlockThatNamesIt) {
  Ring ring(3, 1, 3);
  ring.world.each_rank([&](Rank& rank) {
    if (rank.index != 1) ring.call(rank, CollectiveKind::kAllGather, 1);
  });
  try {
    ring.world.drain();
    FAIL() << "rank 1 never arrives";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), "deadlock");
    EXPECT_NE(failure.why().find("rank 0 waits in comm: all_gather of 1 fp32 (collective 0), where "
                                 "these ranks are missing: 1"),
              std::string::npos)
        << failure.why();
  }
}

TEST(Collectives, RanksStartCleanAfterAFailure) {
  Ring ring(2, 1, 2);
  ring.world.each_rank([&](Rank& rank) {
    if (rank.index == 0) ring.call(rank, CollectiveKind::kAllGather, 1);
  });
  EXPECT_THROW(ring.world.drain(), Failure);
  ring.world.each_rank([&](Rank& rank) { ring.call(rank, CollectiveKind::kAllGather, 1); });
  ring.world.drain();
  EXPECT_EQ(ring.received(0, 1), 100.0f);
}

TEST(Collectives, DifferentCallsAreAMismatch) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Ring ring(2, 2, 4, seed);
    ring.world.each_rank(
        [&](Rank& rank) { ring.call(rank, CollectiveKind::kAllGather, rank.index == 0 ? 1 : 2); });
    try {
      ring.world.drain();
      FAIL() << "counts differ";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), "mismatch");
      EXPECT_NE(failure.why().find("rank 1 calls all_gather of 2 fp32"), std::string::npos);
    }
  }
}

TEST(Collectives, CapturedCollectivesMoveBytesAtEveryLaunch) {
  Ring ring(2, 1, 2);
  std::vector<GraphExec> execs;
  ring.world.each_rank([&](Rank& rank) {
    rank.runtime.begin_capture(ring.stream, CaptureMode::kThreadLocal);
    ring.call(rank, CollectiveKind::kAllGather, 1);
    execs.push_back(rank.runtime.instantiate(rank.runtime.end_capture(ring.stream)));
  });
  for (int launch = 0; launch < 3; ++launch) {
    *reinterpret_cast<float*>(ring.send[1].data) = 7.0f + static_cast<float>(launch);
    ring.world.each_rank([&](Rank& rank) { rank.runtime.launch(execs[rank.index], ring.stream); });
    ring.world.drain();
    EXPECT_EQ(ring.received(0, 1), 7.0f + static_cast<float>(launch));
  }
}

// A rank that is done with a launch may join the exchange of its next one, with the same params,
// while others have not finished the first.
TEST(Collectives, LaunchesOfOneGraphThatAreInFlightDoNotMeet) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Ring ring(3, 1, 3, seed);
    ring.world.each_rank([&](Rank& rank) {
      rank.runtime.begin_capture(ring.stream, CaptureMode::kThreadLocal);
      ring.call(rank, CollectiveKind::kAllGather, 1);
      const GraphExec exec = rank.runtime.instantiate(rank.runtime.end_capture(ring.stream));
      for (int launch = 0; launch < 6; ++launch) rank.runtime.launch(exec, ring.stream);
    });
    ring.world.drain();
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ring.received(rank, 2), 200.0f);
  }
}

TEST(Collectives, CommunicatorsOutliveTheGraphsThatHoldThem) {
  Ring ring(2, 1, 2);
  std::vector<Graph> graphs;
  ring.world.each_rank([&](Rank& rank) {
    rank.runtime.begin_capture(ring.stream, CaptureMode::kThreadLocal);
    ring.call(rank, CollectiveKind::kAllGather, 1);
    graphs.push_back(rank.runtime.end_capture(ring.stream));
  });
  try {
    ring.world.destroy_communicators();
    FAIL() << "two graphs hold the communicators";
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), "comm_has_live_graphs");
  }
  ring.world.each_rank([&](Rank& rank) { rank.runtime.destroy(graphs[rank.index]); });
  EXPECT_NO_THROW(ring.world.destroy_communicators());
  try {
    ring.world.each_rank([&](Rank& rank) { ring.call(rank, CollectiveKind::kAllGather, 1); });
    FAIL() << "no communicator is left";
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), "comm_not_initialised");
  }
}

}  // namespace
}  // namespace dcp
