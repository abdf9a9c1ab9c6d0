#include "harness/dump_layers.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "core/error.hpp"

namespace dcp {

namespace {

constexpr std::int64_t kMaxLayers = 1024;
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr auto kOfLayers =
    std::to_array<std::string_view>({"partial_out", "partial_lse", "out", "lse"});
constexpr auto kOfStep = std::to_array<std::string_view>({"seq_lens", "query_start_loc"});

bool is_one_of(const auto& names, const StoredTensor& tensor) {
  return std::find(names.begin(), names.end(), tensor.name) != names.end();
}

// Rows `layer` of [layers, ...].
StoredTensor layer_of(const StoredTensor& stack, std::size_t layer) {
  const auto size = static_cast<std::ptrdiff_t>(stack.bytes.size()) / stack.shape.front();
  const auto begin = stack.bytes.begin() + static_cast<std::ptrdiff_t>(layer) * size;
  return {.name = stack.name,
          .dtype = stack.dtype,
          .shape = {stack.shape.begin() + 1, stack.shape.end()},
          .bytes = {begin, begin + size}};
}

[[noreturn]] void refuse(const std::string& path, const StoredTensor& tensor,
                         const std::string& why) {
  throw InputError({.file = path}, "tensor '" + tensor.name + "': " + why);
}

class Splitter {
 public:
  Splitter(const std::string& path, std::size_t num_layers) : path_(path), layers_(num_layers) {}

  void add(const StoredTensor& tensor) {
    if (is_one_of(kOfLayers, tensor)) return add_stack(tensor);
    if (!is_one_of(kOfStep, tensor)) {  // only for who looks for misspelt names
      layers_.front().tensors.push_back(tensor);
      return;
    }
    if (tensor.bytes.size() > kMaxBytes / layers_.size()) {
      refuse(path_, tensor, "too large for " + std::to_string(layers_.size()) + " layers");
    }
    for (TensorFile& layer : layers_) layer.tensors.push_back(tensor);
  }

  std::vector<TensorFile> take(const std::map<std::string, std::string>& metadata) {
    for (TensorFile& layer : layers_) layer.metadata = metadata;
    return std::move(layers_);
  }

 private:
  void add_stack(const StoredTensor& tensor) {
    if (tensor.shape.empty() || tensor.shape.front() != std::ssize(layers_)) {
      refuse(path_, tensor,
             "the " + std::to_string(layers_.size()) + " layers of 'partial_out' expected");
    }
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      layers_[layer].tensors.push_back(layer_of(tensor, layer));
    }
  }

  const std::string& path_;
  std::vector<TensorFile> layers_;
};

}  // namespace

std::vector<TensorFile> split_layers(const std::string& path, TensorFile file) {
  const StoredTensor* partials = file.find("partial_out");
  constexpr std::size_t kDims = 4;  // [layers, T, H, D]
  if (partials == nullptr || partials->shape.size() != kDims) {
    std::vector<TensorFile> layers;
    layers.push_back(std::move(file));
    return layers;
  }
  const std::int64_t num_layers = partials->shape.front();
  if (num_layers < 1 || num_layers > kMaxLayers) {
    refuse(path, *partials,
           "layers in 1 .. " + std::to_string(kMaxLayers) + " expected, " +
               std::to_string(num_layers) + " found");
  }
  Splitter splitter(path, static_cast<std::size_t>(num_layers));
  for (const StoredTensor& tensor : file.tensors) splitter.add(tensor);
  return splitter.take(file.metadata);
}

}  // namespace dcp
