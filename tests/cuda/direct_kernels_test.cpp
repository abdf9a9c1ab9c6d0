// The operations of the direct exchange: the GPU leaves in every rank's slots, flags and state what
// the host bodies leave there, and touches nothing else.
#include "kernels/exchange_state.hpp"
#include "tests/cuda/arena.hpp"
#include "tests/cuda/close.hpp"

namespace dcp {
namespace {

constexpr DType kDTypes[] = {DType::kBf16, DType::kFp16, DType::kFp32};
constexpr std::uint32_t kSlots = 2;

// One rank's exchange among `world_size`, in an arena that holds the memory of all of them.
struct Exchange {
  int world_size, rank, heads_per_rank, head_dim;
  std::int64_t num_tokens, max_num_tokens;
  DType dtype, lse_dtype;
  std::uint32_t epoch;
  bool is_head_major;

  std::size_t out{}, lse{}, payload{}, lse_slots{}, signals{}, state{}, received{};
  std::size_t empty_ranks{};

  std::size_t slot_rows() const {
    return std::size_t{kSlots} * world_size * max_num_tokens * heads_per_rank;
  }
  std::size_t row_bytes() const { return head_dim * size_bytes(dtype); }
  int num_heads() const { return world_size * heads_per_rank; }

  // Requests of one row; every third has no key here, and the last row is padding.
  void add_to(Arena& arena) {
    const auto rows = static_cast<std::size_t>(num_tokens) * num_heads();
    out = arena.add_random(rows * head_dim, dtype);
    lse = arena.add_random(rows, lse_dtype, 5.0f);
    payload = arena.add(world_size * slot_rows() * row_bytes());
    lse_slots = arena.add(world_size * slot_rows() * sizeof(float));
    signals = arena.add(std::size_t{kSlots} * world_size * world_size * sizeof(std::uint32_t));
    received = arena.add(static_cast<std::size_t>(num_tokens) * num_heads() *
                         (head_dim + lse_lanes(dtype)) * size_bytes(dtype));
    state = arena.add(sizeof(ExchangeState));
    const ExchangeState begin{epoch, epoch - 1, epoch - 1, 0};
    std::memcpy(arena.host() + state, &begin, sizeof(begin));
    empty_ranks = arena.add_empty_ranks(num_tokens);
  }

  HeadStrides strides(int dim) const {
    if (!is_head_major) return token_major(num_heads(), dim);
    return {0, dim, num_tokens * dim, 1, num_heads()};
  }

  DirectDispatch::Params dispatch(std::byte* base) const {
    DirectDispatch::Params params{};
    params.out = {base + out, strides(head_dim), dtype};
    params.lse = {base + lse, strides(1), lse_dtype};
    for (int peer = 0; peer < world_size; ++peer) {
      params.payload.at[peer] = base + payload + peer * slot_rows() * row_bytes();
      params.lse_slots.at[peer] = reinterpret_cast<float*>(base + lse_slots) + peer * slot_rows();
    }
    params.state = reinterpret_cast<const ExchangeState*>(base + state);
    params.empty = {reinterpret_cast<const std::uint64_t*>(base + empty_ranks), rank};
    params.num_tokens = num_tokens;
    params.max_num_tokens = max_num_tokens;
    params.num_heads = num_heads();
    params.head_dim = head_dim;
    params.world_size = world_size;
    params.rank = rank;
    params.num_slots = kSlots;
    return params;
  }

  DirectPublish::Params publish(std::byte* base) const {
    DirectPublish::Params params{};
    params.state = reinterpret_cast<ExchangeState*>(base + state);
    for (int peer = 0; peer < world_size; ++peer) {
      params.signals.at[peer] =
          reinterpret_cast<std::uint32_t*>(base + signals) + peer * kSlots * world_size;
    }
    params.world_size = world_size;
    params.rank = rank;
    params.num_slots = kSlots;
    return params;
  }

  // Of the memory of the first rank, which also this one's dispatch has stored into.
  DirectRead::Params read(std::byte* base) const {
    return {.payload = base + payload,
            .lse_slots = reinterpret_cast<const float*>(base + lse_slots),
            .received = base + received,
            .state = reinterpret_cast<ExchangeState*>(base + state),
            .num_tokens = num_tokens,
            .max_num_tokens = max_num_tokens,
            .heads_per_rank = heads_per_rank,
            .head_dim = head_dim,
            .world_size = world_size,
            .num_slots = kSlots,
            .dtype = dtype};
  }
};

class DirectKernels : public GpuTest {
 protected:
  template <class Body>
  static void for_each_exchange(const Body& body) {
    int variant = 0;
    for (const DType dtype : kDTypes) {
      for (const int world_size : {2, 3, 8, 9, 16}) {
        for (const int dim : {8, 24, 512, 576}) {
          Exchange exchange{.world_size = world_size,
                            .rank = variant % world_size,
                            .heads_per_rank = 1 + variant % 3,
                            .head_dim = dim,
                            .num_tokens = 1 + variant % 7,
                            .max_num_tokens = 7 + variant % 2,
                            .dtype = dtype,
                            .lse_dtype = kDTypes[variant % 3],
                            .epoch = 5u + static_cast<std::uint32_t>(variant % 2),
                            .is_head_major = variant % 4 == 3};
          ++variant;
          Arena arena;
          exchange.add_to(arena);
          SCOPED_TRACE(std::string(name(dtype)) + " N " + std::to_string(world_size) + " D " +
                       std::to_string(dim) + " T " + std::to_string(exchange.num_tokens));
          body(arena, exchange);
        }
      }
    }
  }
};

TEST_F(DirectKernels, DispatchStoresTheHostsBytesIntoEveryRanksSlot) {
  for_each_exchange([](Arena& arena, const Exchange& exchange) {
    const auto gpu =
        run_both<DirectDispatch>(arena, [&](std::byte* base) { return exchange.dispatch(base); });
    ASSERT_EQ(first_difference(gpu, arena.host_bytes()), -1);
  });
}

// All ranks of one exchange in one node, each with the memory of all in the same arena.
struct WholeExchange {
  const Exchange& form;
  int num_blocks;
  LseBase base;
  FlagScope scope;
  std::uint32_t* abort;

  struct RankMemory {
    std::size_t out, lse, state, combined, combined_lse;
  };
  std::size_t signals = 0;
  std::vector<RankMemory> ranks = {};

  std::size_t signals_of_a_rank() const {
    return std::size_t{kSlots} * static_cast<std::size_t>(num_blocks * form.world_size);
  }

  void add_to(Arena& arena) {
    const auto rows = static_cast<std::size_t>(form.num_tokens) * form.num_heads();
    signals = arena.add(form.world_size * signals_of_a_rank() * sizeof(std::uint32_t));
    std::memset(arena.host() + signals, 0,
                form.world_size * signals_of_a_rank() * sizeof(std::uint32_t));
    for (int rank = 0; rank < form.world_size; ++rank) {
      const auto out = arena.add_random(rows * form.head_dim, form.dtype);
      const auto lse = arena.add_random(rows, form.lse_dtype, 5.0f);
      for (std::size_t i = rank; i < rows; i += 5) {  // some of each kind that is no number
        const float value = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
        store_element(arena.host() + lse, form.lse_dtype, i, value);
      }
      const auto state = arena.add(sizeof(ExchangeState));
      const ExchangeState begin{form.epoch, form.epoch, form.epoch, 0};
      std::memcpy(arena.host() + state, &begin, sizeof(begin));
      const auto combined = arena.add(rows / form.world_size * form.row_bytes());
      const auto combined_lse = arena.add(rows / form.world_size * sizeof(float));
      ranks.push_back({out, lse, state, combined, combined_lse});
    }
  }

  // Tokens before heads, or heads before tokens.
  HeadStrides result_strides() const {
    if (num_blocks % 2 == 0) return token_major(form.heads_per_rank, form.head_dim);
    return {0, form.head_dim, form.num_tokens * form.head_dim, 1, form.heads_per_rank};
  }

  DirectExchange::Params params(std::byte* base_address, int rank) const {
    const RankMemory& own = ranks[static_cast<std::size_t>(rank)];
    auto* const state = reinterpret_cast<ExchangeState*>(base_address + own.state);
    const auto signals_at = [&](int peer) {
      return reinterpret_cast<std::uint32_t*>(base_address + signals) + peer * signals_of_a_rank();
    };
    DirectExchange::Params params{};
    params.send = form.dispatch(base_address);
    params.send.out.data = base_address + own.out;
    params.send.lse.data = base_address + own.lse;
    params.send.state = state;
    params.send.rank = rank;
    params.publish.state = state;
    for (int peer = 0; peer < form.world_size; ++peer) {
      params.publish.signals.at[peer] = signals_at(peer);
    }
    params.publish.world_size = form.world_size;
    params.publish.rank = rank;
    params.publish.num_slots = kSlots;
    params.publish.num_blocks = num_blocks;
    params.publish.scope = scope;
    params.wait = {.state = state,
                   .signals = signals_at(rank),
                   .stores = nullptr,
                   .bound = {.abort = abort, .timeout_ns = 2'000'000'000, .max_blocks = 5},
                   .world_size = form.world_size,
                   .rank = rank,
                   .ubatch = 0,
                   .num_slots = kSlots,
                   .num_blocks = num_blocks,
                   .scope = scope};
    params.out = {base_address + own.combined, result_strides(), form.dtype};
    params.lse = reinterpret_cast<float*>(base_address + own.combined_lse);
    params.base = base;
    return params;
  }

  void run_on_host(Arena& arena) const {
    for (int rank = 0; rank < form.world_size; ++rank) {
      DirectExchange::arrive(params(arena.host(), rank));
    }
    for (int rank = 0; rank < form.world_size; ++rank) {
      ASSERT_TRUE(DirectExchange::ready(params(arena.host(), rank)));
      DirectExchange::run(params(arena.host(), rank));
    }
  }

  // Ranks whose kernels wait for each other: a stream for each.
  std::vector<std::byte> run_on_gpu(Arena& arena) const {
    std::vector<cudaStream_t> streams(ranks.size());
    for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    auto bytes = arena.on_gpu([&](std::byte* base_address, const Launch& at) {
      cudaDeviceSynchronize();
      for (int rank = 0; rank < form.world_size; ++rank) {
        launch(params(base_address, rank),
               {.stream = streams[static_cast<std::size_t>(rank)], .fault = at.fault});
      }
    });
    for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
    return bytes;
  }
};

TEST_F(DirectKernels, ExchangeInOneNodeLeavesTheHostsSlotsAndEpochsAndAgreesOnTheResult) {
  std::uint32_t* abort = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&abort), sizeof(*abort)), cudaSuccess);
  *abort = 0;
  int variant = 0;
  for_each_exchange([&](Arena& arena, const Exchange& exchange) {
    ++variant;
    WholeExchange whole{.form = exchange,
                        .num_blocks = 1 + variant % 8,
                        .base = variant % 2 == 0 ? LseBase::kE : LseBase::kTwo,
                        .scope = variant % 3 == 0 ? FlagScope::kSystem : FlagScope::kGpu,
                        .abort = abort};
    whole.add_to(arena);
    for (int times = 0; times < 3; ++times) {
      const auto gpu = whole.run_on_gpu(arena);
      whole.run_on_host(arena);
      ASSERT_EQ(arena.fault().kind, 0u) << describe(arena.fault());
      const auto expect_same = [&](std::size_t offset, std::size_t size_bytes, const char* what) {
        EXPECT_EQ(std::memcmp(&gpu[offset], arena.host() + offset, size_bytes), 0)
            << what << ", time " << times;
      };
      const auto rows = static_cast<std::size_t>(exchange.num_tokens * exchange.heads_per_rank);
      const std::size_t slots = exchange.world_size * exchange.slot_rows();
      expect_same(exchange.payload, slots * exchange.row_bytes(), "payload");
      expect_same(exchange.lse_slots, slots * sizeof(float), "lse_slots");
      for (const auto& rank : whole.ranks) {
        expect_same(rank.state, sizeof(ExchangeState), "state");
        expect_close(&gpu[rank.combined], arena.host() + rank.combined, exchange.dtype,
                     static_cast<std::int64_t>(rows * exchange.head_dim), 1e-5, "combined");
        expect_close(&gpu[rank.combined_lse], arena.host() + rank.combined_lse, DType::kFp32,
                     static_cast<std::int64_t>(rows), 1e-5, "combined lse");
      }
    }
  });
  cudaFreeHost(abort);
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
    launch(DirectWait::Params{.state = reinterpret_cast<const ExchangeState*>(base + state),
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
