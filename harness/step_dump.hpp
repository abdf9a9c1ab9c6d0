// Files with every tensor of a computing step, for tools that want to check or plot it:
//   step-<i>.inputs.safetensors     q [layers, T, H, Dq] as each layer used it, unsharded;
//                                   k.<layer>.<request> [L, Dq] or, for GQA, [L, G, Dq] and
//                                   v.<layer>.<request> alike with D, in global order, G: KV heads
//                                   of the group; seq_lens [R] global, query_start_loc [R + 1]
//   step-<i>.rank-<r>.safetensors   partial_out [layers, T, H, D], partial_lse [layers, T, H],
//                                   out [layers, T, h or H, D], lse [layers, T, h or H], seq_lens
//                                   [R] local, query_start_loc [R + 1]; send and recv of the last
//                                   layer, where they exist, named send.<ubatch> where the step has
//                                   several
//   step-<i>.reference.safetensors  float64 out [layers, T, H, D], lse [layers, T, H], unsharded
// What the engine stored is there bit for bit, in its own dtype. T: rows that ran, padding
// included.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/safetensors.hpp"
#include "core/scenario.hpp"
#include "engine/engine.hpp"
#include "harness/scenario_runner.hpp"
#include "reference/layer_check.hpp"

namespace dcp {

class StepDump {
 public:
  // Creates the folder. Throws InputError where it cannot be created.
  StepDump(const Scenario& scenario, std::string_view strategy, const RunOptions& options);

  // The right result of the step's next layer.
  void add_reference(const LayerResult& layer);

  // Writes the files of step `index`, which `combined_by` combined. Throws InputError where one
  // cannot be written.
  void write(const Engine& engine, const StepRun& run, int index, std::string_view combined_by);

 private:
  void write_file(int index, const std::string& part, std::vector<StoredTensor> tensors) const;

  const Scenario& scenario_;
  std::filesystem::path folder_;
  std::map<std::string, std::string> metadata_;
  std::vector<double> reference_out_;  // of the layers so far
  std::vector<double> reference_lse_;
};

}  // namespace dcp
