// A whole direct exchange in one node, of all its ranks, on the host and on the GPU.
#pragma once

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/direct_lines.hpp"
#include "tests/cuda/close.hpp"
#include "tests/cuda/direct_case.hpp"

namespace dcp {

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
  std::size_t lines = 0;
  std::vector<RankMemory> ranks = {};

  std::size_t lines_of_a_rank() const {
    return kSlots * kMaxLineTokens * form.num_heads() * form.row_bytes() / 8;
  }

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

  // Some are -inf, +inf, equal to others, or NaN.
  void set_odd_lses(Arena& arena, std::size_t offset, std::size_t count) const {
    constexpr float kOdd[] = {-INFINITY, INFINITY, 2.0f, NAN};
    constexpr unsigned kNumOdd = std::size(kOdd);
    for (std::size_t i = 0; i < count; ++i) {
      const auto draw = arena.random()() % (3 * kNumOdd);
      if (draw < kNumOdd) store_element(arena.host() + offset, form.lse_dtype, i, kOdd[draw]);
    }
  }

  void add_to(Arena& arena) {
    const auto rows = static_cast<std::size_t>(form.num_tokens) * form.num_heads();
    signals = arena.add(form.world_size * signals_of_a_rank() * sizeof(std::uint32_t));
    std::memset(arena.host() + signals, 0,
                form.world_size * signals_of_a_rank() * sizeof(std::uint32_t));
    const std::size_t lines_size = form.world_size * lines_of_a_rank() * sizeof(ExchangeLine);
    lines = arena.add(lines_size);
    std::memset(arena.host() + lines, 0, lines_size);
    auto* const all = reinterpret_cast<ExchangeLine*>(arena.host() + lines);
    for (std::size_t i = 0; i < form.world_size * lines_of_a_rank(); ++i) {
      const auto slot = static_cast<std::uint32_t>(i * kSlots / lines_of_a_rank() % kSlots);
      all[i].epoch = flag_at_rest(form.epoch, slot, kSlots);
    }
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
    params.send.keeps_own_rows = true;
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

  DirectLines::Params line_params(std::byte* base_address, int rank) const {
    const DirectExchange::Params exchange = params(base_address, rank);
    const DirectDispatch::Params& send = exchange.send;
    DirectLines::Params params{.out = send.out,
                               .lse = send.lse,
                               .lines = {},
                               .state = exchange.publish.state,
                               .empty = send.empty,
                               .stores = nullptr,
                               .bound = exchange.wait.bound,
                               .combined = exchange.out,
                               .combined_lse = exchange.lse,
                               .num_tokens = send.num_tokens,
                               .num_heads = send.num_heads,
                               .head_dim = send.head_dim,
                               .world_size = send.world_size,
                               .rank = rank,
                               .ubatch = 0,
                               .num_slots = kSlots,
                               .base = base};
    for (int peer = 0; peer < form.world_size; ++peer) {
      params.lines.at[peer] =
          reinterpret_cast<ExchangeLine*>(base_address + lines) + peer * lines_of_a_rank();
    }
    return params;
  }

  template <class Op>
  typename Op::Params params_of(std::byte* base_address, int rank) const {
    if constexpr (std::is_same_v<Op, DirectLines>) {
      return line_params(base_address, rank);
    } else {
      return params(base_address, rank);
    }
  }

  template <class Op>
  void run_on_host(Arena& arena) const {
    for (int rank = 0; rank < form.world_size; ++rank) {
      Op::arrive(params_of<Op>(arena.host(), rank));
    }
    for (int rank = 0; rank < form.world_size; ++rank) {
      ASSERT_TRUE(Op::ready(params_of<Op>(arena.host(), rank)));
      Op::run(params_of<Op>(arena.host(), rank));
    }
  }

  // Ranks whose kernels wait for each other: a stream for each.
  template <class Op>
  std::vector<std::byte> run_on_gpu(Arena& arena) const {
    std::vector<cudaStream_t> streams(ranks.size());
    for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    auto bytes = arena.on_gpu([&](std::byte* base_address, const Launch& at) {
      cudaDeviceSynchronize();
      for (int rank = 0; rank < form.world_size; ++rank) {
        launch(params_of<Op>(base_address, rank),
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

inline constexpr Layout kLayouts[] = {
    {"contiguous", false, 1, 0},     {"head-major", true, 1, 0},      {"padded heads", false, 1, 8},
    {"unaligned heads", true, 1, 2}, {"element stride", false, 2, 0}, {"all strides", true, 3, 5},
};

class WholeExchangeTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&abort_), sizeof(*abort_)), cudaSuccess);
    *abort_ = 0;
  }
  void TearDown() override { cudaFreeHost(abort_); }

  WholeExchange whole(const Exchange& form, int variant) const {
    return {.form = form,
            .num_blocks = 1 + variant % 8,
            .base = variant % 2 == 0 ? LseBase::kE : LseBase::kTwo,
            .scope = variant % 3 == 0 ? FlagScope::kSystem : FlagScope::kGpu,
            .abort = abort_};
  }

  // Some exchanges, so that slots are used again. `compare_slots(gpu, exchange)` holds what ranks
  // have sent to what the host leaves in the arena.
  template <class Op, class CompareSlots>
  void check(Arena& arena, const Exchange& form, int variant, const CompareSlots& compare_slots) {
    constexpr int kTimes = 4;
    WholeExchange exchange = whole(form, variant);
    exchange.add_to(arena);
    for (int times = 0; times < kTimes; ++times) {
      const auto gpu = exchange.run_on_gpu<Op>(arena);
      exchange.run_on_host<Op>(arena);
      ASSERT_EQ(arena.fault().kind, 0u) << describe(arena.fault());
      compare_slots(gpu, exchange);
      compare_results(arena, gpu, exchange);
      ASSERT_FALSE(HasFailure()) << "time " << times;
    }
  }

  // The bits of an lse; of a NaN only that it is one: who widens a 16-bit one picks its bits.
  static void expect_same_lse(Arena& arena, const std::vector<std::byte>& gpu, std::size_t offset) {
    std::uint32_t on_gpu = 0;
    std::uint32_t on_host = 0;
    std::memcpy(&on_gpu, &gpu[offset], sizeof(on_gpu));
    std::memcpy(&on_host, arena.host() + offset, sizeof(on_host));
    const auto is_nan = [](std::uint32_t bits) { return std::isnan(std::bit_cast<float>(bits)); };
    if (on_host != kPoison && is_nan(on_gpu) && is_nan(on_host)) return;
    EXPECT_EQ(on_gpu, on_host) << "lse";
  }

  static void expect_same(Arena& arena, const std::vector<std::byte>& gpu, std::size_t offset,
                          std::size_t size_bytes, const char* what) {
    EXPECT_EQ(std::memcmp(&gpu[offset], arena.host() + offset, size_bytes), 0) << what;
  }

 private:
  // Within a rounding what is added up; between the rows of a result nothing is touched.
  static void compare_results(Arena& arena, const std::vector<std::byte>& gpu,
                              const WholeExchange& whole) {
    const Exchange& form = whole.form;
    const auto rows = static_cast<std::size_t>(form.num_tokens * form.heads_per_rank);
    for (const auto& rank : whole.ranks) {
      expect_same(arena, gpu, rank.state, sizeof(ExchangeState), "state");
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

}  // namespace dcp
