#include "core/model_presets.hpp"

#include <algorithm>
#include <cmath>

#include "core/scenario_reader.hpp"

namespace dcp {

namespace {

using Preset = std::pair<std::string, Model>;

// The DeepSeek family. Its scale is that of the query before absorption: 128 + 64 dims.
Preset mla(std::string name, int num_heads) {
  Model model{.preset = name,
              .attention = Attention::kMla,
              .num_heads = num_heads,
              .kv_lora_rank = 512,
              .rope_dim = 64,
              .softmax_scale = 1.0 / std::sqrt(192.0),
              .padded_num_heads = {}};
  return {std::move(name), std::move(model)};
}

Preset gqa(std::string name, int num_heads, int num_kv_heads) {
  Model model{.preset = name,
              .attention = Attention::kGqa,
              .num_heads = num_heads,
              .num_kv_heads = num_kv_heads,
              .head_dim = 128,
              .padded_num_heads = {}};
  model.softmax_scale = natural_softmax_scale(model);
  return {std::move(name), std::move(model)};
}

Preset tiny() {
  Model model{.preset = "tiny",
              .attention = Attention::kMla,
              .num_heads = 8,
              .kv_lora_rank = 16,
              .rope_dim = 8,
              .padded_num_heads = {}};
  model.softmax_scale = natural_softmax_scale(model);
  return {"tiny", std::move(model)};
}

}  // namespace

double natural_softmax_scale(const Model& model) {
  return 1.0 / std::sqrt(static_cast<double>(model.qk_head_dim()));
}

const std::vector<Preset>& model_presets() {
  static const std::vector<Preset> kPresets = {
      mla("deepseek-v3", 128), mla("kimi-k2.5", 64),     mla("kimi-k3", 96),
      gqa("llama-70b", 64, 8), gqa("qwen3-235b", 64, 4), tiny(),
  };
  return kPresets;
}

const Model* find_preset(std::string_view name) {
  const std::vector<Preset>& presets = model_presets();
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [&](const Preset& preset) { return preset.first == name; });
  return found == presets.end() ? nullptr : &found->second;
}

int default_block_size(const Model& model) {
  if (model.preset == "tiny") return 4;
  return model.attention == Attention::kMla ? 64 : 16;
}

}  // namespace dcp
