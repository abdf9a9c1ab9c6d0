// Verbs on memory: lock, grow, allocate, free, rebind, remap, poison, canary, check_canary.
#include <algorithm>

#include "core/reader/map_reader.hpp"
#include "core/reader/read_verbs.hpp"
#include "core/reader/words.hpp"
#include "core/spelling.hpp"

namespace dcp::reader {

namespace {

constexpr int kMaxGeneration = 1'000'000;

std::string read_buffer_name(const YamlNode& node, const std::string& key, const StepScope& scope) {
  std::string name = read_name(node, key);
  std::vector<std::string_view> names(scope.allocated.begin(), scope.allocated.end());
  for (const Kind& kind : buffer_kinds()) names.push_back(kind.name);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    refuse(node, "unknown buffer '" + shown(name) + "'" + did_you_mean(name, names));
  }
  return name;
}

BufferRef read_buffer(const YamlNode& node, const std::string& key, const StepScope& scope) {
  BufferRef ref;
  if (node.kind != YamlNode::Kind::kMap) {
    ref.buffer = read_buffer_name(node, key, scope);
    return ref;
  }
  const MapReader map(node, key, {"buffer", "graph", "ubatch", "rank", "generation", "row"});
  ref.buffer = read_buffer_name(map.require("buffer"), map.path("buffer"), scope);
  map.optional("graph", read_name, ref.graph);
  map.optional("ubatch", integer(0, kMaxUbatches - 1), ref.ubatch);
  map.optional("rank", integer(0, scope.scenario.world_size - 1), ref.rank);
  map.optional("generation", integer(0, kMaxGeneration), ref.generation);
  map.optional("row", integer(0, kMaxRows - 1), ref.row);
  return ref;
}

// For verbs that take a whole buffer.
BufferRef read_whole_buffer(const YamlNode& node, const std::string& key, const StepScope& scope) {
  BufferRef ref = read_buffer(node, key, scope);
  if (ref.row) refuse(*node.find("row"), "'" + key + "' takes a whole buffer, not a row");
  return ref;
}

}  // namespace

Verb read_lock(const YamlNode& value, const std::string& key, StepScope&) {
  constexpr std::string_view kWorkspace[] = {"workspace"};
  read_choice(value, key, kWorkspace);
  return verb::Lock{};
}

Verb read_grow(const YamlNode& value, const std::string& key, StepScope&) {
  const MapReader map(value, key, {"workspace"});
  verb::Grow grow;
  map.required("workspace", integer(1, kMaxRows), grow.rows);
  return grow;
}

Verb read_allocate(const YamlNode& value, const std::string& key, StepScope& scope) {
  constexpr std::string_view kPlaces[] = {"device", "capture", "pool", "host_pinned", "host"};
  const MapReader map(value, key, {"name", "bytes", "in"});
  verb::Allocate allocate;
  map.required("name", read_name, allocate.name);
  if (contains(buffer_kinds(), allocate.name)) {
    refuse(*map.find("name"),
           "'" + allocate.name + "' is a buffer of the engine: take another name");
  }
  map.required("bytes", integer(1, kMaxBytes), allocate.size_bytes);
  if (const YamlNode* where = map.find("in")) {
    allocate.where = kPlaces[read_choice(*where, map.path("in"), kPlaces)];
  }
  scope.allocated.insert(allocate.name);
  return allocate;
}

Verb read_free(const YamlNode& value, const std::string& key, StepScope& scope) {
  return verb::Free{read_whole_buffer(value, key, scope)};
}

Verb read_rebind(const YamlNode& value, const std::string& key, StepScope& scope) {
  return verb::Rebind{read_whole_buffer(value, key, scope)};
}

Verb read_remap(const YamlNode& value, const std::string& key, StepScope& scope) {
  return verb::Remap{read_whole_buffer(value, key, scope)};
}

Verb read_poison(const YamlNode& value, const std::string& key, StepScope& scope) {
  return verb::Poison{read_buffer(value, key, scope)};
}

Verb read_canary(const YamlNode& value, const std::string& key, StepScope& scope) {
  return verb::Canary{read_buffer(value, key, scope)};
}

Verb read_check_canary(const YamlNode& value, const std::string& key, StepScope& scope) {
  return verb::CheckCanary{read_whole_buffer(value, key, scope)};
}

}  // namespace dcp::reader
