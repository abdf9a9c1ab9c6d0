// The direct exchange in one node, in each of its forms (vectors in flight, words, elements): what
// the GPU leaves of a whole exchange beside what the host leaves.
#include <cmath>

#include "tests/cuda/close.hpp"
#include "tests/cuda/direct_case.hpp"

namespace dcp {
namespace {

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

  // Of one rank, with what lies between its rows.
  std::size_t result_elements() const {
    return static_cast<std::size_t>(form.num_tokens * form.heads_per_rank * form.stored_dim());
  }
  std::size_t result_bytes() const { return result_elements() * size_bytes(form.dtype); }

  // Tokens before heads, or heads before tokens, whichever it is in the partials.
  HeadStrides result_strides() const {
    Exchange result = form;
    result.is_head_major = num_blocks % 2 != 0;
    return result.strides(form.stored_dim(), form.heads_per_rank, form.element_stride);
  }

  // Some are -inf, +inf, equal to others, or NaN; that one in fp32 only: widening picks its bits.
  void set_odd_lses(Arena& arena, std::size_t offset, std::size_t count) const {
    constexpr float kOdd[] = {-INFINITY, INFINITY, 2.0f, NAN};
    const unsigned num_odd = form.lse_dtype == DType::kFp32 ? 4 : 3;
    for (std::size_t i = 0; i < count; ++i) {
      const auto draw = arena.random()() % (3 * num_odd);
      if (draw < num_odd) store_element(arena.host() + offset, form.lse_dtype, i, kOdd[draw]);
    }
  }

  void add_to(Arena& arena) {
    const auto rows = static_cast<std::size_t>(form.num_tokens) * form.num_heads();
    signals = arena.add(form.world_size * signals_of_a_rank() * sizeof(std::uint32_t));
    std::memset(arena.host() + signals, 0,
                form.world_size * signals_of_a_rank() * sizeof(std::uint32_t));
    for (int rank = 0; rank < form.world_size; ++rank) {
      const auto out = arena.add_random(rows * form.stored_dim(), form.dtype);
      const auto lse = arena.add_random(rows, form.lse_dtype, 5.0f);
      const auto state = arena.add(sizeof(ExchangeState));
      const ExchangeState begin{form.epoch, form.epoch, form.epoch, 0};
      std::memcpy(arena.host() + state, &begin, sizeof(begin));
      set_odd_lses(arena, lse, rows);
      const auto combined = arena.add(result_bytes());
      const auto combined_lse = arena.add(rows / form.world_size * sizeof(float));
      ranks.push_back({out, lse, state, combined, combined_lse});
    }
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

struct Layout {
  const char* what;
  bool is_head_major;
  std::int64_t element_stride;
  int head_padding;
};

constexpr Layout kLayouts[] = {
    {"contiguous", false, 1, 0},     {"head-major", true, 1, 0},      {"padded heads", false, 1, 8},
    {"unaligned heads", true, 1, 2}, {"element stride", false, 2, 0}, {"all strides", true, 3, 5},
};

class DirectExchangeKernel : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&abort_), sizeof(*abort_)), cudaSuccess);
    *abort_ = 0;
  }
  void TearDown() override { cudaFreeHost(abort_); }

  // Three exchanges: both slots, and the first one again.
  void check(Arena& arena, const Exchange& form, int variant) {
    WholeExchange whole{.form = form,
                        .num_blocks = 1 + variant % 8,
                        .base = variant % 2 == 0 ? LseBase::kE : LseBase::kTwo,
                        .scope = variant % 3 == 0 ? FlagScope::kSystem : FlagScope::kGpu,
                        .abort = abort_};
    whole.add_to(arena);
    for (int times = 0; times < 3; ++times) {
      const auto gpu = whole.run_on_gpu(arena);
      whole.run_on_host(arena);
      ASSERT_EQ(arena.fault().kind, 0u) << describe(arena.fault());
      compare(arena, gpu, whole);
      ASSERT_FALSE(HasFailure()) << "time " << times;
    }
  }

 private:
  // What is moved byte for byte, what is added up within a rounding; between the rows of a result
  // nothing is touched.
  static void compare(Arena& arena, const std::vector<std::byte>& gpu, const WholeExchange& whole) {
    const Exchange& form = whole.form;
    const auto same = [&](std::size_t offset, std::size_t size_bytes) {
      return std::memcmp(&gpu[offset], arena.host() + offset, size_bytes) == 0;
    };
    const std::size_t slots = form.world_size * form.slot_rows();
    EXPECT_TRUE(same(form.payload, slots * form.row_bytes())) << "payload";
    EXPECT_TRUE(same(form.lse_slots, slots * sizeof(float))) << "lse slots";
    const auto rows = static_cast<std::size_t>(form.num_tokens * form.heads_per_rank);
    for (const auto& rank : whole.ranks) {
      EXPECT_TRUE(same(rank.state, sizeof(ExchangeState))) << "state";
      expect_close(&gpu[rank.combined], arena.host() + rank.combined, form.dtype,
                   whole.result_elements(), 1e-5, "combined");
      expect_close(&gpu[rank.combined_lse], arena.host() + rank.combined_lse, DType::kFp32, rows,
                   1e-5, "combined lse");
      expect_gaps_untouched(arena, gpu, rank.combined, whole);
    }
  }

  static void expect_gaps_untouched(Arena& arena, const std::vector<std::byte>& gpu,
                                    std::size_t combined, const WholeExchange& whole) {
    const Exchange& form = whole.form;
    const std::size_t element = size_bytes(form.dtype);
    for (std::size_t i = 0; i < whole.result_elements(); ++i) {
      const auto in_head = static_cast<std::int64_t>(i) % form.stored_dim();
      const bool is_result =
          in_head < form.head_dim * form.element_stride && in_head % form.element_stride == 0;
      if (is_result) continue;
      const std::size_t at = combined + i * element;
      ASSERT_EQ(std::memcmp(&gpu[at], arena.host() + at, element), 0) << "gap, element " << i;
    }
  }

  std::uint32_t* abort_ = nullptr;
};

TEST_F(DirectExchangeKernel, LeavesTheHostsSlotsAndEpochsAndAgreesOnTheResult) {
  int variant = 0;
  for_each_exchange(
      [&](Arena& arena, const Exchange& exchange) { check(arena, exchange, ++variant); });
}

TEST_F(DirectExchangeKernel, AgreesWithTheHostForAllSizesLayoutsAndOddLses) {
  int variant = 0;
  for (const DType dtype : kDTypes) {
    for (const int world_size : {2, 5, 7, 8, 9, 33, 64}) {
      for (const int dim : {8, 24, 72, 520}) {
        const Layout& layout = kLayouts[(variant / 4 + variant) % std::size(kLayouts)];
        Exchange exchange{.world_size = world_size,
                          .rank = 0,
                          .heads_per_rank = 1 + variant % 3,
                          .head_dim = dim,
                          .num_tokens = world_size > 9 ? 2 + variant % 2 : 1 + variant % 13,
                          .max_num_tokens = 14,
                          .dtype = dtype,
                          .lse_dtype = kDTypes[variant % 3],
                          .epoch = 4u + static_cast<std::uint32_t>(variant % 2),
                          .is_head_major = layout.is_head_major,
                          .element_stride = layout.element_stride,
                          .head_padding = layout.head_padding};
        SCOPED_TRACE(std::string(name(dtype)) + " N " + std::to_string(world_size) + " D " +
                     std::to_string(dim) + " T " + std::to_string(exchange.num_tokens) + ", " +
                     layout.what);
        Arena arena;
        exchange.add_to(arena);
        check(arena, exchange, variant);
        if (HasFailure()) return;
        ++variant;
      }
    }
  }
}

// A row that has more vectors than a block has lanes goes by words also where there are few ranks.
TEST_F(DirectExchangeKernel, AgreesWithTheHostWhereRowsAreLongerThanABlock) {
  for (const DType dtype : kDTypes) {
    const int dim = 257 * 16 / static_cast<int>(size_bytes(dtype));
    Exchange exchange{.world_size = 4,
                      .rank = 0,
                      .heads_per_rank = 2,
                      .head_dim = dim,
                      .num_tokens = 3,
                      .max_num_tokens = 4,
                      .dtype = dtype,
                      .lse_dtype = DType::kFp32,
                      .epoch = 7,
                      .is_head_major = false};
    SCOPED_TRACE(name(dtype));
    Arena arena;
    exchange.add_to(arena);
    check(arena, exchange, static_cast<int>(size_bytes(dtype)));
  }
}

}  // namespace
}  // namespace dcp
