// Verbs that capture, run and tear down: capture, replay, eager, together, sync, destroy.
#include "core/reader/map_reader.hpp"
#include "core/reader/read_verbs.hpp"
#include "core/reader/words.hpp"
#include "core/spelling.hpp"

namespace dcp::reader {

namespace {

constexpr std::int64_t kMaxTimes = 1'000'000;

std::string read_batch_name(const YamlNode& node, const std::string& key, const StepScope& scope) {
  std::string name = read_name(node, key);
  if (scope.batches.count(name) == 0) {
    const std::vector<std::string_view> names(scope.batches.begin(), scope.batches.end());
    refuse(node, "unknown batch '" + shown(name) + "'" + did_you_mean(name, names));
  }
  return name;
}

auto batch_name(const StepScope& scope) {
  return [&scope](const YamlNode& node, const std::string& key) {
    return read_batch_name(node, key, scope);
  };
}

}  // namespace

Verb read_capture(const YamlNode& value, const std::string& key, StepScope& scope) {
  verb::Capture capture;
  if (value.kind == YamlNode::Kind::kList) {
    capture.sizes = read_distinct(value, key, {1, kMaxRows});
    if (capture.sizes.empty()) refuse(value, "'capture' must name at least one size");
    return capture;
  }
  if (value.kind == YamlNode::Kind::kMap) {
    const MapReader map(value, key, {"graph", "rows", "batch"});
    map.optional("graph", read_name, capture.graph);
    map.optional("rows", integer(1, kMaxRows), capture.rows);
    map.optional("batch", batch_name(scope), capture.batch);
    if (!capture.rows && capture.batch.empty()) refuse(value, "'capture' needs 'rows' or 'batch'");
    return capture;
  }
  if (value.kind != YamlNode::Kind::kScalar || value.text != "all") {
    refuse_type(value, key, "all, a list of sizes or a map {graph, rows, batch}");
  }
  capture.all = true;
  return capture;
}

Verb read_replay(const YamlNode& value, const std::string& key, StepScope& scope) {
  verb::Replay replay;
  if (value.kind != YamlNode::Kind::kMap) {
    replay.batch = read_batch_name(value, key, scope);
    return replay;
  }
  const MapReader map(value, key, {"graph", "batch", "times", "stream", "wait"});
  map.required("batch", batch_name(scope), replay.batch);
  map.optional("graph", read_name, replay.graph);
  map.optional("times", integer(1, kMaxTimes), replay.times);
  map.optional("stream", read_name, replay.stream);
  map.optional("wait", read_bool, replay.wait);
  return replay;
}

Verb read_eager(const YamlNode& value, const std::string& key, StepScope& scope) {
  verb::Eager eager;
  if (value.kind != YamlNode::Kind::kMap) {
    eager.batch = read_batch_name(value, key, scope);
    return eager;
  }
  const MapReader map(value, key, {"batch", "stream", "wait"});
  map.required("batch", batch_name(scope), eager.batch);
  map.optional("stream", read_name, eager.stream);
  map.optional("wait", read_bool, eager.wait);
  return eager;
}

Verb read_together(const YamlNode& value, const std::string& key, StepScope& scope) {
  if (scope.inside_together) refuse(value, "'together' inside 'together'");
  if (value.kind != YamlNode::Kind::kList) {
    refuse_type(value, key, "a list of steps, each with its own rank");
  }
  if (value.items.empty()) refuse(value, "'together' must name at least one step");
  scope.inside_together = true;
  verb::Together together;
  std::set<int> ranks;
  for (const YamlNode& item : value.items) {
    together.steps.push_back(read_step(item, scope));
    const std::optional<int>& rank = together.steps.back().rank;
    if (!rank) refuse(item, "a step inside 'together' needs its own 'rank'");
    if (!ranks.insert(*rank).second) {
      refuse(item, "rank " + std::to_string(*rank) + " has two steps inside 'together'");
    }
  }
  scope.inside_together = false;
  return together;
}

Verb read_sync(const YamlNode& value, const std::string& key, StepScope&) {
  constexpr std::string_view kAll[] = {"all"};
  read_choice(value, key, kAll);
  return verb::Sync{};
}

Verb read_destroy(const YamlNode& value, const std::string& key, StepScope&) {
  const MapReader map(value, key, {"graph", "comm"});
  verb::Destroy destroy;
  map.optional("graph", read_name, destroy.graph);
  const YamlNode* comm = map.find("comm");
  if (comm != nullptr) {
    constexpr std::string_view kAll[] = {"all"};
    read_choice(*comm, map.path("comm"), kAll);
  }
  if (destroy.graph.empty() == (comm == nullptr)) {
    refuse(value, "'destroy' needs either {graph: NAME} or {comm: all}");
  }
  return destroy;
}

}  // namespace dcp::reader
