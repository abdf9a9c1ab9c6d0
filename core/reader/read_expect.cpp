#include <algorithm>

#include "core/reader/map_reader.hpp"
#include "core/reader/read_verbs.hpp"
#include "core/reader/words.hpp"

namespace dcp::reader {

namespace {

std::map<std::int64_t, double> read_rows(const YamlNode& node, const std::string& key) {
  if (node.kind != YamlNode::Kind::kMap) refuse_type(node, key, "a map of rows to values");
  std::map<std::int64_t, double> rows;
  for (const YamlNode::Entry& entry : node.entries) {
    const std::int64_t row = read_integer(entry.key, key + " (row)", {0, kMaxRows - 1});
    rows[row] = read_real(entry.value, key + "." + entry.key.text);
  }
  return rows;
}

ExpectedFinding read_hazard(const MapReader& map, const StepScope& scope) {
  ExpectedFinding finding;
  map.required("kind", kind_of(hazard_kinds()), finding.kind);
  map.optional("graph", read_name, finding.graph);
  map.optional("buffer", read_name, finding.buffer);
  map.optional("node", read_name, finding.node);
  map.optional("rank", integer(0, scope.scenario.world_size - 1), finding.rank);
  map.optional("ubatch", integer(0, kMaxUbatches - 1), finding.ubatch);
  return finding;
}

// A step fails as a whole: which buffer, node or ubatch was at it is told in words only.
ExpectedFinding read_failure(const MapReader& map, const StepScope& scope) {
  ExpectedFinding finding;
  map.required("kind", kind_of(failure_kinds()), finding.kind);
  map.optional("graph", read_name, finding.graph);
  map.optional("rank", integer(0, scope.scenario.world_size - 1), finding.rank);
  return finding;
}

auto hazard_of(const StepScope& scope) {
  return [&scope](const YamlNode& node, const std::string& key) {
    if (node.kind != YamlNode::Kind::kMap) {
      return ExpectedFinding{.kind = read_kind(node, key, hazard_kinds())};
    }
    return read_hazard(MapReader(node, key, {"kind", "graph", "buffer", "node", "rank", "ubatch"}),
                       scope);
  };
}

auto failure_of(const StepScope& scope) {
  return [&scope](const YamlNode& node, const std::string& key) {
    if (node.kind != YamlNode::Kind::kMap) {
      return ExpectedFinding{.kind = read_kind(node, key, failure_kinds())};
    }
    return read_failure(MapReader(node, key, {"kind", "graph", "rank"}), scope);
  };
}

void read_by_strategy(const YamlNode& node, const std::string& key, const StepScope& scope,
                      std::map<std::string, Expect>& by_strategy) {
  if (node.kind != YamlNode::Kind::kMap) refuse_type(node, key, "a map of strategies");
  for (const YamlNode::Entry& entry : node.entries) {
    const std::string strategy = read_kind(entry.key, key, strategy_kinds());
    const auto& run = scope.scenario.strategies;
    if (std::find(run.begin(), run.end(), strategy) == run.end()) {
      refuse(entry.key, "'" + key + "' names '" + strategy +
                            "', which is not among the scenario's strategies");
    }
    if (const YamlNode* nested = entry.value.find("by_strategy")) {
      refuse(*nested, "'by_strategy' inside 'by_strategy'");
    }
    by_strategy[strategy] = read_expect(entry.value, key + "." + strategy, scope);
  }
}

}  // namespace

Expect read_expect(const YamlNode& node, const std::string& key, const StepScope& scope) {
  const MapReader map(node, key,
                      {"out", "lse", "empty_rows", "hazards", "failures", "error", "same_bits_as",
                       "eager_rows", "by_strategy"});
  Expect expect;
  map.optional("out", read_rows, expect.out);
  map.optional("lse", read_rows, expect.lse);
  if (const YamlNode* rows = map.find("empty_rows")) {
    expect.empty_rows = read_distinct(*rows, map.path("empty_rows"), {0, kMaxRows - 1});
  }
  map.optional("hazards", list_of(hazard_of(scope)), expect.hazards);
  map.optional("failures", list_of(failure_of(scope)), expect.failures);
  map.optional("error", kind_of(error_kinds()), expect.error);
  map.optional("eager_rows", integer(0, kMaxRows), expect.eager_rows);
  if (const YamlNode* step = map.find("same_bits_as")) {
    expect.same_bits_as = read_earlier_step(*step, map.path("same_bits_as"), scope);
  }
  if (const YamlNode* by_strategy = map.find("by_strategy")) {
    read_by_strategy(*by_strategy, map.path("by_strategy"), scope, expect.by_strategy);
  }
  return expect;
}

}  // namespace dcp::reader
