// Layers of a file that `run --dump` writes for a rank: its partials and results have a leading
// [layers], which an engine's dump of one layer does not have.
#pragma once

#include <string>
#include <vector>

#include "core/safetensors.hpp"

namespace dcp {

// One file per layer, in order; `file` itself where `partial_out` is not [layers, T, H, D].
// InputError with the tensor where another one has other layers.
std::vector<TensorFile> split_layers(const std::string& path, TensorFile file);

}  // namespace dcp
