#include "kernels/out_proj.hpp"

#include <gtest/gtest.h>

#include <random>

#include "kernels/round_rows.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

OutProj::Params params_for(Rows& out, Rows& query, int layer) {
  OutProj::Params params{};
  params.out = out.view();
  params.next_query = query.view();
  params.num_tokens = 3;
  params.num_heads = 2;
  params.v_head_dim = 16;
  params.qk_head_dim = 24;
  params.layer = layer;
  return params;
}

Rows random_out(DType dtype, Layout layout) {
  Rows out(dtype, {3, 2, 16}, layout);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 96; ++i) out.set(i / 32, i / 16 % 2, i % 16, normal(random));
  return out;
}

TEST(OutProj, RotatesByLayerAndNormalises) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    for (const int layer : {0, 1, 5, 60}) {
      for (const Layout layout : kLayouts) {
        Rows out = random_out(dtype, layout);
        Rows query(dtype, {3, 2, 24}, layout);
        OutProj::run(params_for(out, query, layer));
        for (int row = 0; row < 6; ++row) {
          double squares = 0.0;
          for (int i = 0; i < 16; ++i) squares += std::pow(out.get(row / 2, row % 2, i), 2);
          const double divisor = std::sqrt(squares / 16) + 0x1p-10;
          for (int i = 0; i < 24; ++i) {
            const double want = out.get(row / 2, row % 2, (i + 7 * layer) % 16) / divisor;
            ASSERT_NEAR(query.get(row / 2, row % 2, i), want,
                        ulp(dtype, want) / 2 + 0x1p-21 * std::abs(want));
          }
        }
      }
    }
  }
}

TEST(OutProj, KeepsARowOfZerosZero) {
  Rows out(DType::kBf16, {3, 2, 16});
  Rows query(DType::kBf16, {3, 2, 24});
  for (int i = 0; i < 96; ++i) out.storage.set(i, 0.0f);
  OutProj::run(params_for(out, query, 3));
  for (int i = 0; i < 144; ++i) EXPECT_EQ(query.storage.bits(i), 0u);
}

TEST(OutProj, WritesZeroForMeanDataWithoutReadingTheOutput) {
  Rows out(DType::kBf16, {3, 2, 16});
  Rows query(DType::kBf16, {3, 2, 24});
  OutProj::Params params = params_for(out, query, 3);
  params.zero = 1;
  params.out.data = nullptr;
  OutProj::run(params);
  for (int i = 0; i < 144; ++i) EXPECT_EQ(query.storage.bits(i), 0u);
}

TEST(RoundRows, RoundsToNearestEven) {
  const std::vector<float> in = {1.0f,     1.0f + 0x1p-8f, 1.0f + 0x1.8p-7f,
                                 65520.0f, -kInfinity,     -0.0f};
  Tensor bf16(DType::kBf16, 6);
  Tensor fp16(DType::kFp16, 6);
  Tensor fp32(DType::kFp32, 6);
  for (Tensor* out : {&bf16, &fp16, &fp32}) {
    RoundRows::Params params{};
    params.in = in.data();
    params.out = out->data();
    params.num_elements = 6;
    params.dtype = out->dtype();
    RoundRows::run(params);
  }
  const std::uint32_t want_bf16[] = {0x3F80, 0x3F80, 0x3F82, 0x4780, 0xFF80, 0x8000};
  const std::uint32_t want_fp16[] = {0x3C00, 0x3C04, 0x3C0C, 0x7C00, 0xFC00, 0x8000};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(bf16.bits(i), want_bf16[i]);
    EXPECT_EQ(fp16.bits(i), want_fp16[i]);
    EXPECT_EQ(fp32.get(i), in[i]);
  }
}

}  // namespace
}  // namespace dcp::test
