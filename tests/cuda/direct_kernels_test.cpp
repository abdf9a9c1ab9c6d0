// The operations of the direct exchange: the GPU leaves in every rank's slots, flags and state what
// the host bodies leave there, and touches nothing else.
#include "tests/cuda/direct_case.hpp"

namespace dcp {
namespace {

class DirectKernels : public GpuTest {};

TEST_F(DirectKernels, DispatchStoresTheHostsBytesIntoEveryRanksSlot) {
  for_each_exchange([](Arena& arena, const Exchange& exchange) {
    const auto gpu =
        run_both<DirectDispatch>(arena, [&](std::byte* base) { return exchange.dispatch(base); });
    ASSERT_EQ(first_difference(gpu, arena.host_bytes()), -1);
  });
}

TEST_F(DirectKernels, ReadTakesTheHostsBytesAndLeavesTheCounterAtZero) {
  for_each_exchange([](Arena& arena, Exchange& exchange) {
    for (exchange.rank = 0; exchange.rank < exchange.world_size; ++exchange.rank) {
      DirectDispatch::run(exchange.dispatch(arena.host()));
    }
    for (int times = 0; times < 2; ++times) {
      const auto gpu =
          run_both<DirectRead>(arena, [&](std::byte* base) { return exchange.read(base); });
      ASSERT_EQ(first_difference(gpu, arena.host_bytes()), -1);
    }
  });
}

TEST_F(DirectKernels, AdvanceAndPublishLeaveTheHostsEpochsAndFlags) {
  for_each_exchange([](Arena& arena, const Exchange& exchange) {
    const auto state = [&](std::byte* base) {
      return reinterpret_cast<ExchangeState*>(base + exchange.state);
    };
    for (const std::uint32_t epoch : {exchange.epoch, 0xFFFFFFFFu}) {
      std::memcpy(arena.host() + exchange.state, &epoch, sizeof(epoch));
      const auto advanced = run_both<DirectAdvance>(arena, [&](std::byte* base) {
        return DirectAdvance::Params{.state = state(base), .num_slots = kSlots};
      });
      ASSERT_EQ(first_difference(advanced, arena.host_bytes()), -1);
      const auto published =
          run_both<DirectPublish>(arena, [&](std::byte* base) { return exchange.publish(base); });
      ASSERT_EQ(first_difference(published, arena.host_bytes()), -1);
    }
  });
}

TEST_F(DirectKernels, AWaitInVainEndsAndSaysForWhom) {
  Arena arena;
  const std::size_t state = arena.add(sizeof(ExchangeState));
  const ExchangeState at_seven{7, 6, 6, 0};
  std::memcpy(arena.host() + state, &at_seven, sizeof(at_seven));
  const std::size_t flags = arena.add_values({6, 6, 6, 7, 5, 7});  // slot 1: rank 1 is late
  std::uint32_t* abort = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&abort), sizeof(*abort)), cudaSuccess);
  *abort = 0;
  arena.on_gpu([&](std::byte* base, const Launch& at) {
    launch(DirectWait::Params{.state = reinterpret_cast<ExchangeState*>(base + state),
                              .signals = reinterpret_cast<const std::uint32_t*>(base + flags),
                              .stores = nullptr,
                              .bound = {.abort = abort, .timeout_ns = 10'000'000, .max_blocks = 1},
                              .world_size = 3,
                              .rank = 0,
                              .ubatch = 1,
                              .num_slots = kSlots},
           at);
  });
  EXPECT_EQ(failure_kind(arena.fault()), "wait_timeout");
  EXPECT_EQ(describe(arena.fault()),
            "direct_wait waits in vain: ubatch 1, slot 1, wants epoch 7, sees 5 of rank 1");
  EXPECT_EQ(*abort, 1u);
  cudaFreeHost(abort);
}

}  // namespace
}  // namespace dcp
