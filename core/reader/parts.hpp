// One function per part of the format; each is in the file of its name. All throw InputError.
#pragma once

#include "core/scenario.hpp"
#include "core/yaml_tree.hpp"

namespace dcp::reader {

// A preset's name, or a map that may extend one. softmax_scale is filled in.
Model read_model(const YamlNode& node);

KvSpec read_kv(const YamlNode* node, const Model& model);
KvGatherSpec read_kv_gather(const YamlNode& node);

GraphSpec read_graph(const YamlNode& node);
WorkspaceSpec read_workspace(const YamlNode& node);
DirectSpec read_direct(const YamlNode& node);

// `scenario` holds what is stored and as which type.
DataSpec read_data(const YamlNode& node, const Scenario& scenario);
std::vector<Batch> read_batches(const YamlNode& node, int world_size);

// `scenario` holds everything but the steps.
std::vector<Step> read_steps(const YamlNode& node, const Scenario& scenario);

}  // namespace dcp::reader
