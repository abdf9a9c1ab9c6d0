#include "core/scenario_reader.hpp"

#include "core/input_file.hpp"
#include "core/reader/map_reader.hpp"
#include "core/reader/parts.hpp"
#include "core/reader/tree_edits.hpp"
#include "core/reader/words.hpp"

namespace dcp {

namespace {

using namespace reader;

constexpr int kSchema = 1;
constexpr int kMaxWorldSize = 64;
constexpr int kMaxTensorParallelSize = 1024;
constexpr int kMaxLayers = 1024;
constexpr int kMaxSplits = 1024;

constexpr Word<LseBase> kBases[] = {{"e", LseBase::kE}, {"2", LseBase::kTwo}};
constexpr Word<QueryMode> kQueryModes[] = {{"all_gather", QueryMode::kAllGather},
                                           {"direct", QueryMode::kDirect},
                                           {"replicate", QueryMode::kReplicate}};
constexpr Word<AttentionSplit> kAttentionSplits[] = {
    {"none", AttentionSplit::kNone}, {"context_then_new", AttentionSplit::kContextThenNew}};
constexpr Word<ReduceDtype> kReduceDTypes[] = {{"same", ReduceDtype::kSame},
                                               {"fp32", ReduceDtype::kFp32}};
constexpr Word<A2aLayout> kA2aLayouts[] = {{"interleaved", A2aLayout::kInterleaved},
                                           {"split", A2aLayout::kSplit}};
constexpr Word<CommStream> kCommStreams[] = {{"separate", CommStream::kSeparate},
                                             {"same", CommStream::kSame}};

LseTag read_lse(const YamlNode& node, const std::string& key) {
  const MapReader map(node, key, {"base", "dtype"});
  LseTag lse;
  map.optional("base", one_of(kBases), lse.base);
  map.optional("dtype", one_of(kFloatDTypes), lse.dtype);
  return lse;
}

std::optional<int> read_split_kv(const YamlNode& node, const std::string& key) {
  if (node.kind == YamlNode::Kind::kScalar && node.text == "auto") return std::nullopt;
  if (!node.is_plain()) refuse_type(node, key, "auto or a number of splits");
  return static_cast<int>(read_integer(node, key, {1, kMaxSplits}));
}

Only read_only(const YamlNode& node, const std::string& key) {
  constexpr std::string_view kBackends[] = {"host", "cuda"};
  const MapReader map(node, key, {"strategy", "backend"});
  Only only;
  map.optional("strategy", read_strategies, only.strategies);
  if (const YamlNode* backend = map.find("backend")) {
    only.backend = kBackends[read_choice(*backend, map.path("backend"), kBackends)];
  }
  return only;
}

void check_schema(const MapReader& map) {
  const YamlNode* schema = map.find("schema");
  if (schema == nullptr) return;
  const std::int64_t version = read_integer(*schema, "schema", {0, kMaxInt32});
  if (version != kSchema) {
    refuse(*schema, "schema " + std::to_string(version) +
                        " is not known; this program reads schema " + std::to_string(kSchema));
  }
}

// What the group is: its ranks, heads and layers.
void read_geometry(const MapReader& map, Scenario& scenario) {
  map.required("world_size", integer(1, kMaxWorldSize), scenario.world_size);
  scenario.tensor_parallel_size = scenario.world_size;
  map.optional("tensor_parallel_size", integer(1, kMaxTensorParallelSize),
               scenario.tensor_parallel_size);
  map.optional("interleave", integer(1, kMaxInt32), scenario.interleave);
  scenario.model = read_model(map.require("model"));
  map.optional("layers", integer(1, kMaxLayers), scenario.layers);

  const std::int64_t heads = std::int64_t{scenario.model.num_heads} * scenario.world_size;
  if (heads % scenario.tensor_parallel_size != 0) {
    refuse(*map.find("tensor_parallel_size"),
           "num_heads " + std::to_string(scenario.model.num_heads) + " * world_size " +
               std::to_string(scenario.world_size) + " / tensor_parallel_size " +
               std::to_string(scenario.tensor_parallel_size) + " must be a whole number of heads");
  }
  if (scenario.model.padded_num_heads.value_or(kMaxInt32) < scenario.group_num_heads()) {
    refuse(*map.require("model").find("padded_num_heads"),
           "'model.padded_num_heads' " + std::to_string(*scenario.model.padded_num_heads) +
               " is below the group's " + std::to_string(scenario.group_num_heads()) + " heads");
  }
}

// How a step is computed.
void read_settings(const MapReader& map, Scenario& scenario) {
  map.optional("dtype", one_of(kFloatDTypes), scenario.dtype);
  map.optional("lse", read_lse, scenario.lse);
  map.optional("strategy", read_strategies, scenario.strategies);
  map.optional("query", one_of(kQueryModes), scenario.query);
  map.optional("attention_split", one_of(kAttentionSplits), scenario.attention_split);
  map.optional("split_kv", read_split_kv, scenario.split_kv);
  map.optional("reduce_dtype", one_of(kReduceDTypes), scenario.reduce_dtype);
  map.optional("a2a_layout", one_of(kA2aLayouts), scenario.a2a_layout);
  map.optional("comm_stream", one_of(kCommStreams), scenario.comm_stream);
  map.optional("return_lse", read_bool, scenario.return_lse);
}

void read_parts(const MapReader& map, Scenario& scenario) {
  if (const YamlNode* node = map.find("direct")) scenario.direct = read_direct(*node);
  const YamlNode* kv_gather = map.find("kv_gather");
  if (kv_gather != nullptr && kv_gather->kind != YamlNode::Kind::kNull) {
    scenario.kv_gather = read_kv_gather(*kv_gather);
  }
  scenario.kv = read_kv(map.find("kv"), scenario.model);
  if (const YamlNode* node = map.find("data")) {
    scenario.data = read_data(*node, scenario);
  }
  if (const YamlNode* node = map.find("graph")) scenario.graph = read_graph(*node);
  if (const YamlNode* node = map.find("workspace")) scenario.workspace = read_workspace(*node);
  map.optional("only", read_only, scenario.only);
  scenario.batches = read_batches(map.require("batches"), scenario.world_size);
  if (const YamlNode* node = map.find("steps")) scenario.steps = read_steps(*node, scenario);
}

void read_root(const YamlNode& root, Scenario& scenario) {
  const MapReader map(root, "", {"schema",     "about",        "world_size", "tensor_parallel_size",
                                 "interleave", "model",        "layers",     "dtype",
                                 "lse",        "strategy",     "query",      "attention_split",
                                 "split_kv",   "reduce_dtype", "a2a_layout", "direct",
                                 "kv_gather",  "comm_stream",  "return_lse", "kv",
                                 "data",       "graph",        "workspace",  "batches",
                                 "steps",      "only"},
                      {"decode_context_parallel_size", "cp_kv_cache_interleave_size",
                       "cudagraph_capture_sizes", "dcp_comm_backend"});
  check_schema(map);
  map.optional("about", read_text, scenario.about);
  read_geometry(map, scenario);
  read_settings(map, scenario);
  read_parts(map, scenario);
}

}  // namespace

Scenario read_scenario(const std::string& path, const std::vector<Override>& overrides) {
  return parse_scenario(path, read_input_file(path, kMaxYamlBytes), overrides);
}

Scenario parse_scenario(std::string file, std::string text,
                        const std::vector<Override>& overrides) {
  Scenario scenario;
  YamlNode root = parse_yaml(file, text);
  rename_aliases(root, scenario.aliases_used);
  for (const Override& override : overrides) {
    apply_override(root, override, scenario.aliases_used);
    rename_aliases(root, scenario.aliases_used);
  }
  scenario.file = std::move(file);
  scenario.text = std::move(text);
  scenario.places = places_of_keys(root);
  read_root(root, scenario);
  return scenario;
}

}  // namespace dcp
