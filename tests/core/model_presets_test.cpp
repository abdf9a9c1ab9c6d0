#include "core/model_presets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/scenario_reader.hpp"

namespace dcp {
namespace {

TEST(ModelPresets, AreInAlphabeticalOrderAndNamed) {
  const auto& presets = model_presets();
  ASSERT_EQ(presets.size(), 6u);
  EXPECT_TRUE(std::is_sorted(presets.begin(), presets.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; }));
  for (const auto& [name, model] : presets) EXPECT_EQ(model.preset, name);
}

TEST(ModelPresets, HaveTheGeometryOfTheirModels) {
  const auto expect = [](const char* name, Attention attention, int heads, int kv_heads, int dq,
                         int d, double scale_dim, int block_size) {
    SCOPED_TRACE(name);
    const Model* model = find_preset(name);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->attention, attention);
    EXPECT_EQ(model->num_heads, heads);
    EXPECT_EQ(model->num_kv_heads, kv_heads);
    EXPECT_EQ(model->qk_head_dim(), dq);
    EXPECT_EQ(model->v_head_dim(), d);
    EXPECT_EQ(model->softmax_scale, 1.0 / std::sqrt(scale_dim));
    EXPECT_EQ(default_block_size(*model), block_size);
  };
  expect("deepseek-v3", Attention::kMla, 128, 1, 576, 512, 192, 64);
  expect("kimi-k2.5", Attention::kMla, 64, 1, 576, 512, 192, 64);
  expect("kimi-k3", Attention::kMla, 96, 1, 576, 512, 192, 64);
  expect("qwen3-235b", Attention::kGqa, 64, 4, 128, 128, 128, 16);
  expect("llama-70b", Attention::kGqa, 64, 8, 128, 128, 128, 16);
  expect("tiny", Attention::kMla, 8, 1, 24, 16, 24, 4);
  EXPECT_EQ(find_preset("deepseek"), nullptr);
}

}  // namespace
}  // namespace dcp
