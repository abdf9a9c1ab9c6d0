// Kernels that add: the GPU's exponentials differ from the host's in the last bit, and sums over
// ranks are taken in another order, so results agree within a few roundings, rows of equal weights
// and what is decided exactly (0, -inf, a single rank) to the bit.
#include <cmath>

#include "tests/cuda/arena.hpp"
#include "tests/cuda/close.hpp"

namespace dcp {
namespace {

constexpr DType kDTypes[] = {DType::kBf16, DType::kFp16, DType::kFp32};

class CombiningKernels : public GpuTest {};

// Lses of [rows][states]: spread, equal, -inf, NaN and +inf ones.
void set_lses(Arena& arena, std::size_t offset, std::size_t count) {
  auto* lse = reinterpret_cast<float*>(arena.host() + offset);
  for (std::size_t i = 0; i < count; ++i) {
    const auto draw = arena.random()() % 12;
    if (draw == 0) lse[i] = -INFINITY;
    if (draw == 1) lse[i] = NAN;
    if (draw == 2) lse[i] = INFINITY;
    if (draw == 3) lse[i] = 2.0f;
  }
}

TEST_F(CombiningKernels, CorrectAgreesWithTheHost) {
  for (const DType dtype : kDTypes) {
    for (const int world_size : {1, 2, 8, 33, 64}) {
      for (const int dim : {8, 72, 512, 576}) {
        Arena arena;
        const std::int64_t tokens = 9;
        const int heads = 6;
        const std::size_t rows = tokens * heads;
        const DType scaled_dtype = dim == 72 ? DType::kFp32 : dtype;
        const auto lses = arena.add_random(rows * world_size, DType::kFp32, 4.0f);
        set_lses(arena, lses, rows * world_size);
        const auto out = arena.add_random(rows * dim, dtype);
        const auto scaled = arena.add(rows * dim * size_bytes(scaled_dtype));
        const auto lse = arena.add(rows * 4);
        const auto empty_ranks = arena.add_empty_ranks(tokens);
        const bool masks = dim != 8;
        const auto gpu = run_both<LseCorrect>(arena, [&](std::byte* base) {
          return LseCorrect::Params{
              .lses = reinterpret_cast<float*>(base + lses),
              .empty_ranks = masks ? reinterpret_cast<std::uint64_t*>(base + empty_ranks) : nullptr,
              .out = {base + out, token_major(heads, dim), dtype},
              .scaled = {base + scaled, rank_major(tokens, heads / 2, dim), scaled_dtype},
              .lse = reinterpret_cast<float*>(base + lse),
              .num_tokens = tokens,
              .num_heads = heads,
              .head_dim = dim,
              .world_size = world_size,
              .rank = world_size - 1,
              .first_lse_head = 2,
              .num_lse_heads = 3,
              .base = dim == 512 ? LseBase::kTwo : LseBase::kE};
        });
        const std::string what = std::string(name(dtype)) + " N " + std::to_string(world_size);
        expect_close(&gpu[scaled], arena.host() + scaled, scaled_dtype, rows * dim, 4e-6, what);
        expect_close(&gpu[lse], arena.host() + lse, DType::kFp32, tokens * 3, 4e-6, what + " lse");
      }
    }
  }
}

TEST_F(CombiningKernels, CombineAgreesWithTheHostForEveryShapeAndStride) {
  for (const DType dtype : kDTypes) {
    for (const int world_size : {1, 2, 7, 8, 9, 64}) {
      for (const int dim : {8, 24, 512, 576}) {
        for (int variant = 0; variant < 4; ++variant) {
          Arena arena;
          const std::int64_t tokens = variant == 0 ? 1 : 50;
          const int heads = 1 + variant;
          const PackedRows packed{
              tokens, world_size, heads,
              dim,    dtype,      variant % 2 == 0 ? A2aLayout::kInterleaved : A2aLayout::kSplit};
          const auto count = static_cast<std::size_t>(world_size * packed.elements_per_peer());
          const auto recv = arena.add_random(count, dtype);
          const auto lses = arena.add_random(count, DType::kFp32, 4.0f);
          set_lses(arena, lses, count);
          for (int rank = 0; rank < world_size; ++rank) {
            for (std::int64_t token = 0; token < tokens; ++token) {
              for (int head = 0; head < heads; ++head) {
                const auto row = (rank * tokens + token) * heads + head;
                std::memcpy(
                    arena.host() + recv + packed.lse_offset(rank, token, head) * size_bytes(dtype),
                    arena.host() + lses + row * 4, 4);
              }
            }
          }
          const std::int64_t step = variant == 3 ? 2 : 1;  // element stride
          const auto out = arena.add(tokens * heads * dim * step * size_bytes(dtype));
          const auto lse = arena.add(tokens * heads * 4);
          const auto gpu = run_both<A2aCombine>(arena, [&](std::byte* base) {
            return A2aCombine::Params{
                .recv = base + recv,
                .out = {base + out, {0, heads * dim * step, dim * step, step, heads}, dtype},
                .lse = reinterpret_cast<float*>(base + lse),
                .num_tokens = tokens,
                .heads_per_rank = heads,
                .head_dim = dim,
                .world_size = world_size,
                .base = variant == 2 ? LseBase::kTwo : LseBase::kE,
                .layout = packed.layout};
          });
          const std::string what = std::string(name(dtype)) + " N " + std::to_string(world_size) +
                                   " D " + std::to_string(dim) + " variant " +
                                   std::to_string(variant);
          expect_close(&gpu[out], arena.host() + out, dtype, tokens * heads * dim * step, 1e-5,
                       what);
          expect_close(&gpu[lse], arena.host() + lse, DType::kFp32, tokens * heads, 1e-5, what);
        }
      }
    }
  }
}

TEST_F(CombiningKernels, ASingleRankPassesThroughToTheBit) {
  Arena arena;
  const int world_size = 8, heads = 4, dim = 512;
  const std::int64_t tokens = 3;
  const PackedRows packed{tokens, world_size, heads, dim, DType::kBf16, A2aLayout::kInterleaved};
  const auto count = static_cast<std::size_t>(world_size * packed.elements_per_peer());
  const auto recv = arena.add_random(count, DType::kBf16);
  for (int rank = 0; rank < world_size; ++rank) {
    for (std::int64_t token = 0; token < tokens; ++token) {
      for (int head = 0; head < heads; ++head) {
        const float lse = rank == head ? -300.0f : -INFINITY;
        std::memcpy(arena.host() + recv + packed.lse_offset(rank, token, head) * 2, &lse, 4);
      }
    }
  }
  const auto out = arena.add(tokens * heads * dim * 2);
  const auto gpu = run_both<A2aCombine>(arena, [&](std::byte* base) {
    return A2aCombine::Params{.recv = base + recv,
                              .out = {base + out, token_major(heads, dim), DType::kBf16},
                              .lse = nullptr,
                              .num_tokens = tokens,
                              .heads_per_rank = heads,
                              .head_dim = dim,
                              .world_size = world_size,
                              .base = LseBase::kE,
                              .layout = packed.layout};
  });
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (int head = 0; head < heads; ++head) {
      const auto from = recv + packed.payload_offset(head, token, head) * 2;
      EXPECT_EQ(std::memcmp(&gpu[out + (token * heads + head) * dim * 2], &gpu[from], dim * 2), 0);
    }
  }
}

TEST_F(CombiningKernels, MergeAndSplitsAgreeWithTheHost) {
  for (const DType dtype : kDTypes) {
    for (const int dim : {8, 128, 576}) {
      Arena arena;
      const std::int64_t tokens = 7;
      const int heads = 3, splits = 5;
      const std::size_t rows = tokens * heads;
      const auto starts = arena.add_values({0, 2, 2, 5});
      const auto lengths = arena.add_values({3, 0, 9});
      const auto batch = [&](std::byte* base) {
        return BatchMetadata{reinterpret_cast<std::int32_t*>(base + starts),
                             reinterpret_cast<std::int32_t*>(base + lengths), nullptr, 3};
      };
      const auto mode = arena.add_values({static_cast<int>(EmptyRowMode::kPlusInf)});
      const auto states = arena.add_random(2 * rows * dim, dtype);
      const auto lses = arena.add_random(2 * rows, DType::kFp32, 4.0f);
      const auto merged = arena.add(rows * dim * size_bytes(dtype));
      const auto lse = arena.add(rows * 4);
      const auto gpu = run_both<MergeStates>(arena, [&](std::byte* base) {
        const auto* lse_at = reinterpret_cast<float*>(base + lses);
        return MergeStates::Params{.context_out = base + states,
                                   .context_lse = lse_at,
                                   .new_out = base + states + rows * dim * size_bytes(dtype),
                                   .new_lse = lse_at + rows,
                                   .out = {base + merged, token_major(heads, dim), dtype},
                                   .lse = reinterpret_cast<float*>(base + lse),
                                   .batch = batch(base),
                                   .num_tokens = tokens,
                                   .num_heads = heads,
                                   .head_dim = dim,
                                   .base = LseBase::kE};
      });
      expect_close(&gpu[merged], arena.host() + merged, dtype, rows * dim, 1e-6, "merge");
      expect_close(&gpu[lse], arena.host() + lse, DType::kFp32, rows, 1e-6, "merge lse");

      const auto split_out = arena.add_random(splits * rows * dim, DType::kFp32);
      const auto split_lse = arena.add_random(splits * rows, DType::kFp32, 4.0f);
      auto* lse_values = reinterpret_cast<float*>(arena.host() + split_lse);
      lse_values[4] = NAN;
      lse_values[rows] = -INFINITY;
      const auto gpu_split = run_both<SplitCombine>(arena, [&](std::byte* base) {
        return SplitCombine::Params{.split_out = reinterpret_cast<float*>(base + split_out),
                                    .split_lse = reinterpret_cast<float*>(base + split_lse),
                                    .out = {base + merged, token_major(heads, dim), dtype},
                                    .lse = {base + lse, token_major(heads, 1), DType::kFp32},
                                    .batch = batch(base),
                                    .empty_row_mode = reinterpret_cast<std::int32_t*>(base + mode),
                                    .num_tokens = tokens,
                                    .num_heads = heads,
                                    .head_dim = dim,
                                    .num_splits = splits,
                                    .base = LseBase::kTwo};
      });
      expect_close(&gpu_split[merged], arena.host() + merged, dtype, rows * dim, 4e-6, "splits");
      expect_close(&gpu_split[lse], arena.host() + lse, DType::kFp32, rows, 4e-6, "splits lse");
    }
  }
}

}  // namespace
}  // namespace dcp
