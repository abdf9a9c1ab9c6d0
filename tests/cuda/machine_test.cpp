// What a report says of the machine, and which GPUs ranks of one process go to.
#include <algorithm>

#include "comm/cuda/symmetric_world.hpp"
#include "comm/cuda/waiting_room.hpp"
#include "comm/make_world.hpp"
#include "core/error.hpp"
#include "tests/cuda/arena.hpp"

namespace dcp {
namespace {

TEST(WaitingRoom, IsSharedByRanksAndUbatchesAndRefusedWhereItIsTooSmall) {
  EXPECT_EQ(waiting_blocks(132, 1, 1), 264);
  EXPECT_EQ(waiting_blocks(132, 8, 2), 16);
  EXPECT_EQ(waiting_blocks(132, 64, 1), 4);
  EXPECT_THROW(waiting_blocks(132, 13, 5), StepError);  // 65 kernels at a time
  EXPECT_EQ(waiting_blocks(20, 20, 2), 1);
  EXPECT_THROW(waiting_blocks(20, 41, 1), StepError);  // 41 blocks, in room for 40
}

class MachineOfCuda : public GpuTest {};

TEST_F(MachineOfCuda, IsNamedInReports) {
  const Machine machine = machine_of({.backend = Backend::kCuda});
  EXPECT_NE(machine.gpus, "");
  EXPECT_EQ(machine.gpus.find("unknown"), std::string::npos);
  EXPECT_NE(machine.driver.find("CUDA 1"), std::string::npos) << machine.driver;
  EXPECT_EQ(machine.nccl, "") << "comm symmetric uses none";
  EXPECT_GE(machine.num_peer_gpus, 1);
}

// The host writes where kernels of each rank can read, whichever GPU the ranks are on.
TEST_F(MachineOfCuda, RanksTakeTurnsAtTheGpusThatReachEachOther) {
  const std::vector<int> devices = peer_devices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.front(), 0);
  constexpr int kNumRanks = 3;
  SymmetricWorld world(kNumRanks, 1);
  const auto used = std::min<std::size_t>(devices.size(), kNumRanks);
  const auto buffers = world.allocate_symmetric("slots", 256);
  for (std::size_t rank = 0; rank < kNumRanks; ++rank) {
    cudaPointerAttributes attributes{};
    ASSERT_EQ(cudaPointerGetAttributes(&attributes, buffers[rank].data), cudaSuccess);
    EXPECT_EQ(attributes.device, devices[rank % used]) << "rank " << rank;
  }
  world.each_rank([&](Rank& rank) {
    EXPECT_EQ(rank.peers->flag_scope() == FlagScope::kGpu, used == 1);
    std::vector<std::uint32_t> words(64, static_cast<std::uint32_t>(rank.index));
    rank.runtime.write(buffers[rank.index].data, words.data(), 256);
  });
  world.each_rank([&](Rank& rank) {
    for (std::uint32_t peer = 0; peer < kNumRanks; ++peer) {
      std::uint32_t word = 99;
      rank.runtime.read(&word, buffers[peer].data, sizeof(word));
      EXPECT_EQ(word, peer);
    }
  });
}

}  // namespace
}  // namespace dcp
