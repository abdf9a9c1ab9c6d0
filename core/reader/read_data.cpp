#include <cmath>
#include <limits>

#include "core/reader/map_reader.hpp"
#include "core/reader/parts.hpp"

namespace dcp::reader {

namespace {

constexpr Word<DataKind> kDataKinds[] = {
    {"random", DataKind::kRandom}, {"mean", DataKind::kMean}, {"given", DataKind::kGiven}};

// Of the tensor's lists, and what its elements are stored as.
struct TensorForm {
  std::size_t num_dims;
  DType dtype;
};

// Infinity where it is written, not what a number becomes that the type does not hold.
double read_element(const YamlNode& node, const std::string& key, DType dtype) {
  const double value = read_real(node, key);
  const bool overflows =
      std::isfinite(value) && (std::abs(value) > std::numeric_limits<float>::max() ||
                               std::isinf(round_to(dtype, static_cast<float>(value))));
  if (overflows) {
    refuse(node, "'" + key + "' is out of the range of " + std::string(name(dtype)) + ": " +
                     shown(node.text));
  }
  return value;
}

// Appends the numbers of `node`, whose lists must have the lengths of `shape` from `level` on. The
// first list of each level sets its length.
void read_values(const YamlNode& node, const std::string& key, DType dtype, std::size_t level,
                 GivenTensor& into) {
  if (level == into.shape.size()) {
    into.values.push_back(read_element(node, key, dtype));
    return;
  }
  if (node.kind != YamlNode::Kind::kList) refuse_type(node, key, "a list at this depth");
  const auto length = static_cast<std::int64_t>(node.items.size());
  if (length == 0) refuse(node, "'" + key + "' has an empty list");
  if (into.shape[level] == 0) into.shape[level] = length;
  if (into.shape[level] != length) {
    refuse(node, "'" + key + "' is ragged: a list of " + std::to_string(length) +
                     " where others have " + std::to_string(into.shape[level]));
  }
  for (const YamlNode& item : node.items) read_values(item, key, dtype, level + 1, into);
}

GivenTensor read_tensor(const YamlNode& node, const std::string& key, const TensorForm& form) {
  GivenTensor tensor;
  tensor.place = node.place;
  if (node.kind == YamlNode::Kind::kList) tensor.shape.assign(form.num_dims, 0);
  read_values(node, key, form.dtype, 0, tensor);
  return tensor;
}

std::vector<GivenTensor> read_tensors(const MapReader& map, std::string_view name,
                                      const TensorForm& form, int world_size) {
  const YamlNode& node = map.require(name);
  const std::string key = map.path(name);
  const auto read = [&](const YamlNode& item, const std::string&) {
    return read_tensor(item, key, form);
  };
  std::vector<GivenTensor> tensors = list_of(read)(node, key);
  if (tensors.size() != static_cast<std::size_t>(world_size)) {
    refuse(node, "'" + key + "' must have one entry per rank: " + std::to_string(world_size) +
                     ", not " + std::to_string(tensors.size()));
  }
  return tensors;
}

}  // namespace

DataSpec read_data(const YamlNode& node, const Scenario& scenario) {
  const MapReader map(node, "data", {"kind", "seed", "lse", "out"});
  DataSpec data;
  map.optional("kind", one_of(kDataKinds), data.kind);
  map.optional("seed", read_seed, data.seed);
  if (data.kind == DataKind::kGiven) {
    const int world_size = scenario.world_size;
    data.given_lse = read_tensors(map, "lse", {2, scenario.lse.dtype}, world_size);
    data.given_out = read_tensors(map, "out", {3, scenario.dtype}, world_size);
    return data;
  }
  for (const char* key : {"lse", "out"}) {
    if (const YamlNode* value = map.find(key)) {
      refuse(*value, "'" + map.path(key) + "' is for data of kind 'given'");
    }
  }
  return data;
}

}  // namespace dcp::reader
