#include <cmath>

#include "core/model_presets.hpp"
#include "core/reader/map_reader.hpp"
#include "core/reader/parts.hpp"
#include "core/reader/words.hpp"
#include "core/scenario_reader.hpp"

namespace dcp::reader {

namespace {

constexpr int kMaxHeads = 1024;
constexpr int kMaxHeadDim = 576;  // value dim: the combine's rows
constexpr int kMaxKeyDim = 1024;

constexpr Word<Attention> kAttentions[] = {{"mla", Attention::kMla}, {"gqa", Attention::kGqa}};

Model read_preset(const YamlNode& node, const std::string& key) {
  std::vector<std::string_view> names;
  for (const auto& [name, model] : model_presets()) names.push_back(name);
  return model_presets()[read_choice(node, key, names)].second;
}

// Real ones are below 1. Scores stay far from where fp32 ends.
constexpr double kMaxSoftmaxScale = 1e4;

double read_scale(const YamlNode& node, const std::string& key) {
  const double scale = read_real(node, key);
  if (!(scale > 0 && scale <= kMaxSoftmaxScale)) {
    refuse_type(node, key, "a number above 0, at most 10000");
  }
  return scale;
}

void refuse_keys_of_other_attention(const MapReader& map, Attention attention) {
  const bool is_mla = attention == Attention::kMla;
  for (const char* key : {"kv_lora_rank", "rope_dim", "head_dim", "num_kv_heads"}) {
    const bool is_mla_key = key[0] != 'h' && key[0] != 'n';
    const YamlNode* value = map.find(key);
    if (value == nullptr || is_mla_key == is_mla) continue;
    refuse(*value, "'" + map.path(key) + "' is for attention: " + (is_mla ? "gqa" : "mla"));
  }
}

void read_dims(const MapReader& map, Model& model) {
  const bool is_new = model.preset.empty();
  const auto dim = [&](const char* key, std::int64_t min, int& into) {
    if (is_new) map.require(key);
    map.optional(key, integer(min, kMaxKeyDim), into);
  };
  if (model.attention == Attention::kMla) {
    dim("kv_lora_rank", 1, model.kv_lora_rank);
    dim("rope_dim", 0, model.rope_dim);
  } else {
    dim("head_dim", 1, model.head_dim);
    dim("num_kv_heads", 1, model.num_kv_heads);
  }
}

void check_dims(const MapReader& map, const Model& model) {
  const char* key = model.attention == Attention::kMla ? "kv_lora_rank" : "head_dim";
  const int dim = model.v_head_dim();
  if (dim % 8 != 0 || dim > kMaxHeadDim) {
    refuse(*map.find(key), "'" + map.path(key) +
                               "' is the value's head dim: a multiple of 8 in 8 .. " +
                               std::to_string(kMaxHeadDim) + ", not " + std::to_string(dim));
  }
  if (model.attention == Attention::kGqa && model.num_heads % model.num_kv_heads != 0) {
    refuse(map.node(), "'" + map.path("num_heads") + "' " + std::to_string(model.num_heads) +
                           " must be a multiple of 'num_kv_heads' " +
                           std::to_string(model.num_kv_heads));
  }
}

Model read_model_map(const YamlNode& node) {
  const MapReader map(node, "model",
                      {"extends", "attention", "num_heads", "num_kv_heads", "kv_lora_rank",
                       "rope_dim", "head_dim", "softmax_scale", "padded_num_heads"});
  Model model;
  map.optional("extends", read_preset, model);
  const bool is_new = model.preset.empty();
  const Attention attention = model.attention;
  if (is_new) map.require("attention");
  map.optional("attention", one_of(kAttentions), model.attention);
  if (!is_new && model.attention != attention) {
    refuse(*map.find("attention"),
           "'model.attention' is not that of the preset '" + model.preset + "'");
  }
  refuse_keys_of_other_attention(map, model.attention);
  if (is_new) map.require("num_heads");
  map.optional("num_heads", integer(1, kMaxHeads), model.num_heads);
  map.optional("padded_num_heads", integer(1, kMaxHeads), model.padded_num_heads);
  // A preset whose scale is not the natural one has it from the model before absorption: kept.
  const bool natural = is_new || model.softmax_scale == natural_softmax_scale(model);
  read_dims(map, model);
  check_dims(map, model);
  if (natural) model.softmax_scale = natural_softmax_scale(model);
  map.optional("softmax_scale", read_scale, model.softmax_scale);
  return model;
}

}  // namespace

Model read_model(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kMap) return read_model_map(node);
  if (node.kind != YamlNode::Kind::kScalar) refuse_type(node, "model", "a preset or a map");
  return read_preset(node, "model");
}

}  // namespace dcp::reader
