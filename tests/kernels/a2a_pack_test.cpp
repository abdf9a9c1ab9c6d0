#include "kernels/a2a_pack.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "kernels/empty_shard_mask.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

constexpr DType kDTypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

struct Case {
  int world_size;
  Rows out;
  Rows lse;
  Batch batch = {};
  A2aLayout layout = A2aLayout::kInterleaved;
};

Tensor pack(Case& c, const Shape& shape) {
  const PackedRows packed{shape.num_tokens, c.world_size,          shape.num_heads / c.world_size,
                          shape.dim,        c.out.storage.dtype(), c.layout};
  Tensor send(c.out.storage.dtype(), c.world_size * packed.elements_per_peer());
  A2aPack::Params params{};
  params.out = c.out.view();
  params.lse = c.lse.view();
  params.send = send.data();
  const auto empty_ranks = c.batch.empty_ranks(shape.num_tokens);
  params.empty = {empty_ranks.data(), 0};
  params.num_tokens = shape.num_tokens;
  params.num_heads = shape.num_heads;
  params.head_dim = shape.dim;
  params.world_size = c.world_size;
  params.layout = c.layout;
  A2aPack::run(params);
  return send;
}

// Any bits: half of what a random pattern can be looks like no number at all.
void fill_with_bits(Rows& rows, const Shape& shape, std::mt19937& random) {
  for (int t = 0; t < shape.num_tokens; ++t) {
    for (int h = 0; h < shape.num_heads; ++h) {
      for (int i = 0; i < shape.dim; ++i) {
        rows.storage.set_bits(rows.at(t, h, i), static_cast<std::uint32_t>(random()));
      }
    }
  }
}

TEST(A2aPack, PutsAnLseIntoTwo16BitLanesLowHalfFirstOrOneFp32Lane) {
  const Shape shape{1, 1, 8};
  for (const DType dtype : kDTypes) {
    Case c{1, Rows(dtype, shape), Rows(DType::kFp32, {1, 1, 1})};
    c.lse.storage.set_bits(0, 0x3F8A1234u);
    const Tensor send = pack(c, shape);
    if (dtype == DType::kFp32) {
      ASSERT_EQ(send.count(), 9u);
      EXPECT_EQ(send.bits(8), 0x3F8A1234u);
    } else {
      ASSERT_EQ(send.count(), 10u);
      EXPECT_EQ(send.bits(8), 0x1234u);
      EXPECT_EQ(send.bits(9), 0x3F8Au);
    }
  }
}

TEST(A2aPack, PutsEveryHeadWhereThePackedRowSays) {
  const Shape shape{3, 6, 8};
  for (const DType dtype : kDTypes) {
    for (const A2aLayout layout : {A2aLayout::kInterleaved, A2aLayout::kSplit}) {
      Case c{3, Rows(dtype, shape), Rows(DType::kFp32, {3, 6, 1}), {}, layout};
      std::mt19937 random(1);
      fill_with_bits(c.out, shape, random);
      fill_with_bits(c.lse, {3, 6, 1}, random);
      const Tensor send = pack(c, shape);
      const int lanes = dtype == DType::kFp32 ? 1 : 2;
      for (int peer = 0; peer < 3; ++peer) {
        for (int row = 0; row < 6; ++row) {  // [T, h] of this peer
          const int begin = peer * 6 * (8 + lanes);
          const bool is_split = layout == A2aLayout::kSplit;
          const int payload = begin + row * (is_split ? 8 : 8 + lanes);
          const int lse = is_split ? begin + 6 * 8 + row * lanes : payload + 8;
          const int token = row / 2;
          const int head = peer * 2 + row % 2;
          for (int i = 0; i < 8; ++i) {
            ASSERT_EQ(send.bits(payload + i), c.out.bits(token, head, i));
          }
          const std::uint32_t sent =
              lanes == 1 ? send.bits(lse) : send.bits(lse) | send.bits(lse + 1) << 16;
          ASSERT_EQ(sent, c.lse.bits(token, head));
        }
      }
    }
  }
}

TEST(A2aPack, KeepsBitsThatLookLikeNan) {
  const Shape shape{1, 1, 8};
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    Case c{1, Rows(dtype, shape), Rows(DType::kFp32, {1, 1, 1})};
    const std::uint32_t signalling = dtype == DType::kFp16 ? 0x7C01u : 0x7F81u;
    for (int i = 0; i < 8; ++i) c.out.storage.set_bits(i, signalling + static_cast<unsigned>(i));
    c.lse.storage.set_bits(0, 0x41007F81u);  // a finite lse whose low half looks like a NaN
    const Tensor send = pack(c, shape);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(send.bits(i), signalling + static_cast<unsigned>(i));
    EXPECT_EQ(send.bits(8), 0x7F81u);
    EXPECT_EQ(send.bits(9), 0x4100u);
  }
  Case c{1, Rows(DType::kFp32, shape), Rows(DType::kFp32, {1, 1, 1})};
  for (int i = 0; i < 8; ++i) c.out.storage.set_bits(i, 0x7F800001u);
  c.lse.storage.set_bits(0, 0xFF812345u);
  const Tensor send = pack(c, shape);
  EXPECT_EQ(send.bits(0), 0x7F800001u);
  EXPECT_EQ(send.bits(8), 0xFF812345u);
}

TEST(A2aPack, LeavesThePayloadOfAnEmptyRowAsItIs) {
  const Shape shape{2, 2, 8};
  Case c{2, Rows(DType::kBf16, shape), Rows(DType::kFp32, {2, 2, 1}), {{0, 1, 2}, {4, 0}}};
  std::mt19937 random(2);
  fill_with_bits(c.out, shape, random);
  fill_with_bits(c.lse, {2, 2, 1}, random);
  const Tensor send = pack(c, shape);  // per peer: row of token 0, row of token 1
  for (int i = 0; i < 8; ++i) EXPECT_EQ(send.bits(10 + i), c.out.bits(1, 0, i));
  EXPECT_EQ(send.bits(18), 0x0000u);
  EXPECT_EQ(send.bits(19), 0xFF80u);
  EXPECT_EQ(send.bits(8) | send.bits(9) << 16, c.lse.bits(0, 0));
}

TEST(A2aPack, Widens16BitLsesExactly) {
  const Shape shape{2, 2, 8};
  for (const DType lse_dtype : {DType::kFp16, DType::kBf16}) {
    Case c{1, Rows(DType::kFp32, shape), Rows(lse_dtype, {2, 2, 1})};
    for (int i = 0; i < 4; ++i) c.lse.storage.set(i, 3.3f * static_cast<float>(i - 2));
    const Tensor send = pack(c, shape);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(send.get(i * 9 + 8), c.lse.storage.get(i));
  }
}

TEST(A2aPack, TakesAnyLayoutAndLeavesItAsItWas) {
  const Shape shape{3, 4, 24};
  const Shape lse_shape{3, 4, 1};
  for (const DType dtype : kDTypes) {
    Case plain{2, Rows(dtype, shape), Rows(DType::kFp32, lse_shape), {{0, 2}, {1}}};
    std::mt19937 random(3);
    fill_with_bits(plain.out, shape, random);
    fill_with_bits(plain.lse, lse_shape, random);
    const Tensor want = pack(plain, shape);
    for (const Layout layout : kLayouts) {
      Case c{2, Rows(dtype, shape, layout), Rows(DType::kFp32, lse_shape, layout), plain.batch};
      std::mt19937 same(3);
      fill_with_bits(c.out, shape, same);
      fill_with_bits(c.lse, lse_shape, same);
      const Tensor out = c.out.storage;
      const Tensor lse = c.lse.storage;
      EXPECT_TRUE(pack(c, shape) == want) << static_cast<int>(layout);
      EXPECT_TRUE(c.out.storage == out);
      EXPECT_TRUE(c.lse.storage == lse);
    }
  }
}

// Local lengths of one rank's requests.
std::vector<std::vector<std::int32_t>> length_patterns() {
  std::vector<std::int32_t> many(52);
  for (int i = 0; i < 52; ++i) many[i] = i % 3 == 1 ? 0 : i;
  return {{5, 3, 4, 2}, {5, 0, 0, 2}, {0, 0, 0}, {0, 3, 4}, {3, 4, 0, 0}, many, {1}};
}

TEST(A2aPack, MasksBitForBitAsTheStandAloneMaskDoes) {
  std::mt19937 random(4);
  for (const DType dtype : kDTypes) {
    for (const auto& [world_size, heads_per_rank] : {std::pair{8, 2}, {8, 16}, {4, 4}, {2, 1}}) {
      for (const int tokens_per_request : {1, 2, 3}) {
        for (const int pad_rows : {0, 2}) {
          for (const auto& seq_lens : length_patterns()) {
            Batch batch{{0}, seq_lens};
            for (std::size_t r = 0; r < seq_lens.size(); ++r) {
              batch.query_start_loc.push_back(batch.query_start_loc.back() + tokens_per_request);
            }
            const Shape shape{batch.query_start_loc.back() + pad_rows, world_size * heads_per_rank,
                              8};
            const Shape lse_shape{shape.num_tokens, shape.num_heads, 1};
            Case fused{world_size, Rows(dtype, shape), Rows(DType::kFp32, lse_shape), batch};
            fill_with_bits(fused.out, shape, random);
            fill_with_bits(fused.lse, lse_shape, random);
            Case apart = fused;
            apart.batch = {};
            EmptyShardMask::Params mask{};
            mask.lse = fused.lse.view();
            mask.masked = static_cast<float*>(apart.lse.storage.data());
            const auto empty_ranks = batch.empty_ranks(shape.num_tokens);
            mask.empty = {empty_ranks.data(), 0};
            mask.num_tokens = shape.num_tokens;
            mask.num_heads = shape.num_heads;
            EmptyShardMask::run(mask);
            ASSERT_TRUE(pack(fused, shape) == pack(apart, shape))
                << world_size << " " << tokens_per_request << " " << pad_rows;
          }
        }
      }
    }
  }
}

TEST(A2aPack, MasksEveryRowWithoutRequests) {
  const Shape shape{2, 2, 8};
  Case c{2, Rows(DType::kBf16, shape), Rows(DType::kFp32, {2, 2, 1}), {{0}, {}}};
  const Tensor send = pack(c, shape);
  for (int row = 0; row < 4; ++row) EXPECT_EQ(send.bits(row * 10 + 9), 0xFF80u);
}

}  // namespace
}  // namespace dcp::test
