// What goes with a model beyond its Model struct.
#pragma once

#include <string_view>

#include "core/scenario.hpp"

namespace dcp {

// The preset of this name, or null.
const Model* find_preset(std::string_view name);

// 1 / sqrt(query and key head dim).
double natural_softmax_scale(const Model& model);

// Tokens per page where the scenario does not say: 4 for the preset `tiny`, else 64 for MLA and 16
// for GQA.
int default_block_size(const Model& model);

}  // namespace dcp
