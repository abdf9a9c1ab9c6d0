#include "harness/step_dump.hpp"

#include <cstdio>
#include <iterator>
#include <span>

#include "core/error.hpp"

namespace dcp {

namespace {

std::string seventeen_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::map<std::string, std::string> metadata_of(const Scenario& scenario, std::string_view strategy,
                                               const RunOptions& options) {
  std::map<std::string, std::string> metadata = {
      {"scenario", scenario.text},
      {"strategy", std::string(strategy)},
      {"seed", std::to_string(scenario.data.seed)},
      {"order_seed", std::to_string(options.seed)},
      {"softmax_scale", seventeen_digits(scenario.model.softmax_scale)},
      {"lse_base", scenario.lse.base == LseBase::kTwo ? "2" : "e"},
      {"dtype", std::string(name(scenario.dtype))},
      {"world_size", std::to_string(scenario.world_size)},
      {"attention", scenario.model.attention == Attention::kMla ? "mla" : "gqa"},
      {"attention_split",
       scenario.attention_split == AttentionSplit::kContextThenNew ? "context_then_new" : "none"}};
  // Without these the scenario's text would not be what ran.
  for (const Override& override : options.overrides) {
    metadata["set"] += override.key + "=" + override.value + "\n";
  }
  return metadata;
}

StoredTensor integers(std::string name, const std::vector<std::int64_t>& values) {
  const std::vector<std::int32_t> stored(values.begin(), values.end());
  return make_tensor<std::int32_t>(std::move(name), {std::ssize(stored)}, stored);
}

StoredTensor stored(std::string name, TensorBits bits) {
  return {std::move(name), stored_dtype(bits.dtype), std::move(bits.shape), std::move(bits.bytes)};
}

// [layers, ...] of the layers of one tensor, in order.
class LayerStack {
 public:
  explicit LayerStack(std::string name) : tensor_{.name = std::move(name)} {}

  void add(const TensorBits& layer) {
    if (tensor_.shape.empty()) {
      tensor_.dtype = stored_dtype(layer.dtype);
      tensor_.shape = {0};
      tensor_.shape.insert(tensor_.shape.end(), layer.shape.begin(), layer.shape.end());
    }
    ++tensor_.shape[0];
    tensor_.bytes.insert(tensor_.bytes.end(), layer.bytes.begin(), layer.bytes.end());
  }
  bool empty() const { return tensor_.shape.empty(); }
  StoredTensor take() { return std::move(tensor_); }

 private:
  StoredTensor tensor_;
};

struct RankStacks {
  LayerStack partial_out{"partial_out"};
  LayerStack partial_lse{"partial_lse"};
  LayerStack out{"out"};
  LayerStack lse{"lse"};

  void add(const RankLayerBits& layer) {
    partial_out.add(layer.partial_out);
    partial_lse.add(layer.partial_lse);
    out.add(layer.out);
    if (layer.lse) lse.add(*layer.lse);
  }
  std::vector<StoredTensor> take() {
    std::vector<StoredTensor> tensors;
    for (LayerStack* stack : {&partial_out, &partial_lse, &out, &lse}) {
      if (!stack->empty()) tensors.push_back(stack->take());
    }
    return tensors;
  }
};

// Elements of `dtype` that hold the values, which were rounded to it.
std::vector<std::byte> elements_of(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) store_element(bytes.data(), dtype, i, values[i]);
  return bytes;
}

struct KvPlace {
  int layer;
  int request;
};

// Adds k and v of one request and layer. An MLA token is one key whose first D elements are its
// value; a GQA token is the keys of all KV heads, then their values.
void add_keys(const Scenario& scenario, const InputData& data, const BatchLayout& layout,
              const KvPlace& at, std::vector<StoredTensor>& tensors) {
  const Shard shard{0, scenario.world_size, scenario.interleave};
  const bool is_mla = scenario.model.attention == Attention::kMla;
  const std::int64_t length = layout.seq_lens[static_cast<std::size_t>(at.request)];
  // Where new tokens are attended to apart, they are not read from the cache.
  const std::int64_t cached = layout.context_only ? length - layout.query_len(at.request) : length;
  const std::int64_t num_kv_heads = is_mla ? 1 : scenario.group_num_kv_heads();
  const std::int64_t key_dim = scenario.model.qk_head_dim();
  const std::int64_t value_dim = scenario.model.v_head_dim();
  std::vector<float> row(static_cast<std::size_t>(scenario.kv_row_dim())), keys, values;
  const auto first_value = row.begin() + (is_mla ? 0 : num_kv_heads * key_dim);
  for (std::int64_t token = 0; token < length; ++token) {
    data.kv_row(at.layer, at.request, token, owner_of_token(layout, shard, at.request, token), row);
    if (token < cached) round_to(scenario.kv_dtype(), row);  // as attention read it
    keys.insert(keys.end(), row.begin(), row.begin() + num_kv_heads * key_dim);
    values.insert(values.end(), first_value, first_value + num_kv_heads * value_dim);
  }
  const auto add = [&](const char* name, const std::vector<float>& elements, std::int64_t dim) {
    std::vector<std::int64_t> shape = {length, dim};
    if (!is_mla) shape.insert(shape.begin() + 1, num_kv_heads);
    tensors.push_back({name + ("." + std::to_string(at.layer) + "." + std::to_string(at.request)),
                       stored_dtype(scenario.dtype), std::move(shape),
                       elements_of(elements, scenario.dtype)});
  };
  add("k", keys, key_dim);
  add("v", values, value_dim);
}

void add_workspaces(const Engine& engine, const StepRun& run, int rank,
                    std::vector<StoredTensor>& tensors) {
  const auto num_ubatches = static_cast<int>(run.step->ubatches.size());
  for (int ubatch = 0; ubatch < num_ubatches; ++ubatch) {
    for (const char* name : {"send", "recv"}) {
      auto bits = engine.read_workspace({.run = run, .rank = rank, .ubatch = ubatch, .name = name});
      if (!bits) continue;
      const std::string suffix = num_ubatches == 1 ? "" : "." + std::to_string(ubatch);
      tensors.push_back(stored(name + suffix, std::move(*bits)));
    }
  }
}

}  // namespace

StepDump::StepDump(const Scenario& scenario, std::string_view strategy, const RunOptions& options)
    : scenario_(scenario),
      folder_(options.dump_folder),
      metadata_(metadata_of(scenario, strategy, options)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw InputError({.file = folder_}, "cannot create this folder: " + error.message());
  }
}

void StepDump::add_reference(const LayerResult& layer) {
  reference_out_.insert(reference_out_.end(), layer.out.begin(), layer.out.end());
  reference_lse_.insert(reference_lse_.end(), layer.lse.begin(), layer.lse.end());
}

void StepDump::write(const Engine& engine, const StepRun& run, int index,
                     std::string_view combined_by) {
  const StepShape& shape = run.step->ranks[0].shape;
  const BatchLayout& layout = run.layout;
  metadata_["combined_by"] = combined_by;
  metadata_.erase("interleave");
  if (!layout.contiguous) metadata_["interleave"] = std::to_string(scenario_.interleave);
  LayerStack query("q");
  std::vector<RankStacks> ranks(run.step->ranks.size());
  std::vector<StoredTensor> inputs;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const LayerBits bits = engine.read_layer_bits(run, layer);
    query.add(bits.query);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].add(bits.ranks[rank]);
    for (int request = 0; request < layout.num_requests(); ++request) {
      add_keys(scenario_, engine.data(), layout, {layer, request}, inputs);
    }
  }
  inputs.push_back(query.take());
  inputs.push_back(integers("seq_lens", layout.seq_lens));
  inputs.push_back(integers("query_start_loc", layout.query_start_loc));
  write_file(index, "inputs", std::move(inputs));

  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<StoredTensor> tensors = ranks[rank].take();
    add_workspaces(engine, run, static_cast<int>(rank), tensors);
    tensors.push_back(integers("seq_lens", layout.local_seq_lens[rank]));
    tensors.push_back(integers("query_start_loc", layout.query_start_loc));
    write_file(index, "rank-" + std::to_string(rank), std::move(tensors));
  }

  const std::int64_t layers = shape.layers;
  std::vector<StoredTensor> reference;
  reference.push_back(make_tensor<double>(
      "out", {layers, shape.num_tokens, shape.num_heads, shape.head_dim}, reference_out_));
  reference.push_back(
      make_tensor<double>("lse", {layers, shape.num_tokens, shape.num_heads}, reference_lse_));
  write_file(index, "reference", std::move(reference));
  reference_out_.clear();
  reference_lse_.clear();
}

void StepDump::write_file(int index, const std::string& part,
                          std::vector<StoredTensor> tensors) const {
  const std::string file = "step-" + std::to_string(index) + "." + part + ".safetensors";
  write_safetensors((folder_ / file).string(), {metadata_, std::move(tensors)});
}

}  // namespace dcp
