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
      {"attention", scenario.model.attention == Attention::kMla ? "mla" : "gqa"}};
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

// Adds k and v of one request and layer: an MLA key's first D elements are the value.
void add_keys(const Scenario& scenario, const InputData& data, const BatchLayout& layout, int layer,
              int request, std::vector<StoredTensor>& tensors) {
  const Shard shard{0, scenario.world_size, scenario.interleave};
  const auto key_dim = static_cast<std::size_t>(scenario.model.qk_head_dim());
  const auto value_dim = static_cast<std::size_t>(scenario.model.v_head_dim());
  const std::int64_t length = layout.seq_lens[static_cast<std::size_t>(request)];
  std::vector<float> key(key_dim), keys, values;
  for (std::int64_t token = 0; token < length; ++token) {
    data.key(layer, request, token, owner_of_token(layout, shard, request, token), key);
    keys.insert(keys.end(), key.begin(), key.end());
    values.insert(values.end(), key.begin(), key.begin() + static_cast<std::ptrdiff_t>(value_dim));
  }
  const std::string place = "." + std::to_string(layer) + "." + std::to_string(request);
  const DType dtype = scenario.dtype;
  tensors.push_back(
      {"k" + place, stored_dtype(dtype), {length, std::ssize(key)}, elements_of(keys, dtype)});
  tensors.push_back({"v" + place,
                     stored_dtype(dtype),
                     {length, static_cast<std::int64_t>(value_dim)},
                     elements_of(values, dtype)});
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

void StepDump::write(const Engine& engine, const StepRun& run, int index) {
  const StepShape& shape = run.step->ranks[0].shape;
  const BatchLayout& layout = run.layout;
  LayerStack query("q");
  std::vector<RankStacks> ranks(run.step->ranks.size());
  std::vector<StoredTensor> inputs;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const LayerBits bits = engine.read_layer_bits(run, layer);
    query.add(bits.query);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].add(bits.ranks[rank]);
    for (int request = 0; request < layout.num_requests(); ++request) {
      add_keys(scenario_, engine.data(), layout, layer, request, inputs);
    }
  }
  inputs.push_back(query.take());
  inputs.push_back(integers("seq_lens", layout.seq_lens));
  inputs.push_back(integers("query_start_loc", layout.query_start_loc));
  write_file(index, "inputs", std::move(inputs));

  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<StoredTensor> tensors = ranks[rank].take();
    for (const char* name : {"send", "recv"}) {
      auto bits = engine.read_workspace(run, static_cast<int>(rank), name);
      if (bits) tensors.push_back(stored(name, std::move(*bits)));
    }
    tensors.push_back(integers("seq_lens", layout.local_seq_lens[rank]));
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
