// Kernels that move bits: the GPU leaves the very bytes that the host body leaves.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/cuda/arena.hpp"
#include "tests/cuda/close.hpp"

namespace dcp {
namespace {

constexpr DType kDTypes[] = {DType::kBf16, DType::kFp16, DType::kFp32};

// Requests without tokens, requests without local keys, and rows past the last boundary.
struct Batch {
  std::vector<std::int32_t> query_start_loc;
  std::vector<std::int32_t> seq_lens;
  std::vector<std::int32_t> causal_bounds;
};

Batch make_batch(std::mt19937& random, std::int64_t num_tokens, int num_requests) {
  Batch batch;
  std::uniform_int_distribution<std::int32_t> row(0, static_cast<std::int32_t>(num_tokens));
  for (int r = 0; r <= num_requests; ++r) batch.query_start_loc.push_back(row(random));
  std::sort(batch.query_start_loc.begin(), batch.query_start_loc.end());
  batch.query_start_loc[0] = 0;
  for (int r = 0; r < num_requests; ++r) batch.seq_lens.push_back(random() % 3);
  for (std::int64_t t = 0; t < num_tokens; ++t) batch.causal_bounds.push_back(random() % 4);
  return batch;
}

struct BatchOffsets {
  std::size_t query_start_loc, seq_lens, causal_bounds;
  std::int32_t num_requests;

  BatchMetadata at(std::byte* base) const {
    return {reinterpret_cast<std::int32_t*>(base + query_start_loc),
            reinterpret_cast<std::int32_t*>(base + seq_lens),
            reinterpret_cast<std::int32_t*>(base + causal_bounds), num_requests};
  }
};

BatchOffsets add_batch(Arena& arena, std::int64_t num_tokens, int num_requests) {
  const Batch batch = make_batch(arena.random(), num_tokens, num_requests);
  return {arena.add_values(batch.query_start_loc), arena.add_values(batch.seq_lens),
          arena.add_values(batch.causal_bounds), num_requests};
}

class MovingKernels : public GpuTest {};

// Contiguous rows; rows of more heads than are used; heads before tokens; every second element.
HeadStrides strides_of(int form, std::int64_t tokens, int heads, int dim) {
  if (form == 1) return token_major(heads + 2, dim);
  if (form == 2) return {0, dim, tokens * dim, 1, heads};
  if (form == 3) return {0, 2 * heads * dim, 2 * dim, 2, heads};
  return token_major(heads, dim);
}

TEST_F(MovingKernels, PackLeavesTheHostsBytesForEveryShapeAndStride) {
  for (const DType dtype : kDTypes) {
    for (const int world_size : {1, 3, 8}) {
      for (const int dim : {8, 24, 64, 512, 576}) {
        for (int variant = 0; variant < 12; ++variant) {
          Arena arena;
          const std::int64_t tokens = 1 + variant % 5;
          const int heads = world_size * (1 + variant % 3);
          const auto layout = variant % 2 == 0 ? A2aLayout::kInterleaved : A2aLayout::kSplit;
          const int form = variant % 4;
          const DType lse_dtype = kDTypes[variant % 3];
          const auto empty_ranks = arena.add_empty_ranks(tokens);
          const auto out =
              arena.add_random(static_cast<std::size_t>(2 * tokens * (heads + 2) * dim), dtype);
          const auto lse =
              arena.add_random(static_cast<std::size_t>(tokens * heads), lse_dtype, 5.0f);
          const std::size_t element = size_bytes(dtype);
          const std::size_t send = arena.add(
              static_cast<std::size_t>(tokens * heads * (dim + lse_lanes(dtype))) * element,
              variant % 3 == 2 ? element : 0);  // not always 16-byte aligned
          const auto gpu = run_both<A2aPack>(arena, [&](std::byte* base) {
            return A2aPack::Params{
                .out = {base + out, strides_of(form, tokens, heads, dim), dtype},
                .lse = {base + lse, token_major(heads, 1), lse_dtype},
                .send = base + send,
                .empty = {reinterpret_cast<std::uint64_t*>(base + empty_ranks), variant % 3},
                .num_tokens = tokens,
                .num_heads = heads,
                .head_dim = dim,
                .world_size = world_size,
                .layout = layout};
          });
          ASSERT_EQ(first_difference(gpu, arena.host_bytes()), -1)
              << name(dtype) << " N " << world_size << " D " << dim << " variant " << variant;
        }
      }
    }
  }
}

TEST_F(MovingKernels, MaskLeavesTheHostsBytes) {
  for (const DType dtype : kDTypes) {
    for (const int heads : {1, 5, 200}) {
      Arena arena;
      const std::int64_t tokens = 70;
      const auto empty_ranks = arena.add_empty_ranks(tokens);
      const auto lse = arena.add_random(static_cast<std::size_t>(tokens * heads), dtype, 5.0f);
      const auto masked = arena.add(static_cast<std::size_t>(tokens * heads) * sizeof(float));
      const auto gpu = run_both<EmptyShardMask>(arena, [&](std::byte* base) {
        return EmptyShardMask::Params{
            .lse = {base + lse, token_major(heads, 1), dtype},
            .masked = reinterpret_cast<float*>(base + masked),
            .empty = {reinterpret_cast<std::uint64_t*>(base + empty_ranks), 63},
            .num_tokens = tokens,
            .num_heads = heads};
      });
      ASSERT_EQ(first_difference(gpu, arena.host_bytes()), -1) << name(dtype) << " H " << heads;
    }
  }
}

// A merge with new tokens depends on whether the row has one.
TEST_F(MovingKernels, MergeFindsTheRequestOfEveryRowAmongThousands) {
  for (const int num_requests : {0, 1, 2, 31, 32, 33, 1000, 1025, 5000}) {
    Arena arena;
    const std::int64_t tokens = 700;
    constexpr int kHeads = 2, kDim = 8;
    constexpr std::size_t kRows = 700 * kHeads;
    const BatchOffsets batch = add_batch(arena, tokens, num_requests);
    const auto states = arena.add_random(2 * kRows * kDim, DType::kFp32);
    const auto lses = arena.add_random(2 * kRows, DType::kFp32);
    const auto merged = arena.add(kRows * kDim * sizeof(float));
    const auto gpu = run_both<MergeStates>(arena, [&](std::byte* base) {
      const auto* lse_at = reinterpret_cast<float*>(base + lses);
      return MergeStates::Params{.context_out = base + states,
                                 .context_lse = lse_at,
                                 .new_out = base + states + kRows * kDim * sizeof(float),
                                 .new_lse = lse_at + kRows,
                                 .out = {base + merged, token_major(kHeads, kDim), DType::kFp32},
                                 .lse = nullptr,
                                 .batch = batch.at(base),
                                 .num_tokens = tokens,
                                 .num_heads = kHeads,
                                 .head_dim = kDim,
                                 .base = LseBase::kE};
    });
    expect_close(&gpu[merged], arena.host() + merged, DType::kFp32, kRows * kDim, 1e-6, "merge");
  }
}

TEST_F(MovingKernels, AppendStoresTheRowsAndReportsASlotPastTheCache) {
  for (const auto& [dim, kv_dtype] : {std::pair{8, DType::kBf16},
                                      {9, DType::kBf16},
                                      {576, DType::kBf16},
                                      {9, DType::kFp8E4m3},
                                      {576, DType::kFp8E4m3}}) {
    Arena arena;
    const std::size_t kv = arena.add_random(5 * dim, DType::kBf16);
    const std::size_t cache = arena.add(10 * dim * size_bytes(kv_dtype));
    std::vector<std::int64_t> slots = {3, -1, 9, 0, 7};
    const std::size_t mapping = arena.add(slots.size() * 8);
    std::memcpy(arena.host() + mapping, slots.data(), slots.size() * 8);
    const auto params = [&](std::byte* base) {
      return KvAppend::Params{.new_kv = base + kv,
                              .kv_cache = base + cache,
                              .slot_mapping = reinterpret_cast<std::int64_t*>(base + mapping),
                              .num_tokens = 5,
                              .num_slots = 10,
                              .dim = dim,
                              .dtype = DType::kBf16,
                              .kv_dtype = kv_dtype};
    };
    const auto gpu = run_both<KvAppend>(arena, params);
    EXPECT_EQ(first_difference(gpu, arena.host_bytes()), -1) << dim << " " << name(kv_dtype);
    EXPECT_EQ(arena.fault().kind, 0u);

    slots[2] = 10;
    std::memcpy(arena.host() + mapping, slots.data(), slots.size() * 8);
    arena.on_gpu([&](std::byte* base, const Launch& at) { launch(params(base), at); });
    EXPECT_EQ(describe(arena.fault()),
              "kv_append stores token 2 into slot 10 of a cache of 10 slots");
    EXPECT_EQ(failure_kind(arena.fault()), "illegal_address");
  }
}

TEST_F(MovingKernels, RoundingGivesTheHostsBits) {
  for (const DType dtype : kDTypes) {
    Arena arena;
    const std::int64_t count = 100'003;
    const auto in = arena.add_random(count, DType::kFp32, 1e3f);
    auto* values = reinterpret_cast<std::uint32_t*>(arena.host() + in);
    for (int i = 0; i < 50'000; ++i) values[i] = arena.random()();  // any bits
    for (int i = 0; i < 50'000; ++i) {  // the bits of a NaN are the machine's
      if (std::isnan(std::bit_cast<float>(values[i]))) values[i] &= 0x7FFFFF;
    }
    const auto out = arena.add(count * size_bytes(dtype));
    const auto gpu = run_both<RoundRows>(arena, [&](std::byte* base) {
      return RoundRows::Params{reinterpret_cast<float*>(base + in), base + out, count, dtype};
    });
    EXPECT_EQ(first_difference(gpu, arena.host_bytes()), -1) << name(dtype);
  }
}

}  // namespace
}  // namespace dcp
